"""What a trace says about a collective: kind, group, size; from metadata, marks, or a kernel's name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from zerosim.importers.counts import count, elements_of, total
from zerosim.kinds import GATHERED, Kind
from zerosim.trace import MAX_RANKS
from zerosim.units import DTYPE_BYTES

COLLECTIVE: Final = "Collective name"
"""An event that has it tells of a collective by itself."""
_KINDS: Final = (
    ("allgather", Kind.ALL_GATHER),
    ("reducescatter", Kind.REDUCE_SCATTER),
    ("allreduce", Kind.ALL_REDUCE),
    ("alltoall", Kind.ALL_TO_ALL),
    ("broadcast", Kind.BROADCAST),
    ("barrier", Kind.BARRIER),
    ("sendrecv", Kind.COLLECTIVE),
    ("reduce", Kind.REDUCE),
    ("gather", Kind.GATHER),
    ("scatter", Kind.SCATTER),
    ("send", Kind.P2P),
    ("recv", Kind.P2P),
)
"""Longest first: `allgather` before `gather`. NCCL moves an all-to-all by its SendRecv kernel."""

_DTYPES: Final = {
    "float": "float32",
    "bfloat16": "bfloat16",
    "half": "float16",
    "double": "float64",
    "long": "int64",
    "longint": "int64",
    "int": "int32",
    "short": "int16",
    "shortint": "int16",
    "byte": "uint8",
    "unsignedchar": "uint8",
    "char": "int8",
    "signedchar": "int8",
    "bool": "bool",
    "float8e4m3": "float8_e4m3fn",
    "float8e5m2": "float8_e5m2",
}
"""By the names of C++, of c10 and of NCCL."""
PER_RANK: Final = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER)
"""Collectives of which NCCL counts what one rank holds, not the full tensor."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one collective; null where the trace is silent.

    `elements` counts the full tensor: the output of an all-gather, the input of a reduce-scatter.
    """

    kind: Kind
    group: str | None = None
    group_size: int | None = None
    ranks: tuple[int, ...] | None = None
    elements: int | None = None
    dtype: str | None = None
    sequence: int | None = None

    @property
    def nbytes(self) -> int | None:
        """`elements` in bytes; None if either is unknown."""
        width = DTYPE_BYTES.get(self.dtype or "")
        return None if width is None or self.elements is None else count(self.elements * width)


def kind_of(name: str) -> Kind:
    """The collective that `name` (of a call, a mark or a kernel) speaks of, else `collective`."""
    plain = name.split("(", 1)[0].lower().replace("_", "")
    return next((kind for word, kind in _KINDS if word in plain), Kind.COLLECTIVE)


def dtype_of(name: object) -> str | None:
    """The name torch gives a dtype that others wrote as `BFloat16`, `c10::Half`, `long int`, `char`."""
    if not isinstance(name, str) or not name:
        return None
    plain = name.removeprefix("c10::").lower().replace(" ", "")
    known = _DTYPES.get(plain, plain)
    return known if known in DTYPE_BYTES else name


def from_metadata(args: dict[str, Any]) -> Facts | None:
    """The facts of an event that carries `Collective name`; None if it does not."""
    name = args.get(COLLECTIVE)
    if not isinstance(name, str) or name == "wait":
        return None
    kind = kind_of(name)
    group = args.get("Process Group Name")
    return Facts(
        kind=kind,
        group=str(group) if group not in (None, "") else None,
        group_size=count(args.get("Group size"), MAX_RANKS + 1),
        ranks=ranks_of(args.get("Process Group Ranks")),
        elements=_elements(kind, args.get("In msg nelems"), args.get("Out msg nelems")),
        dtype=dtype_of(args.get("dtype")),
        sequence=count(args.get("Seq")),
    )


def from_shapes(kind: Kind, args: dict[str, Any], group_size: int | None) -> Facts:
    """The facts of a mark `nccl:…` that names the input tensors by `Input Dims` and `Input type`."""
    elements = count_elements(args.get("Input Dims"))
    if kind in GATHERED:
        elements = None if elements is None or group_size is None else count(elements * group_size)
    types = args.get("Input type")
    first = types[0] if isinstance(types, list) and types else None
    return Facts(kind, elements=elements, dtype=dtype_of(first))


def count_elements(dims: object) -> int | None:
    """Elements of the first tensor in a profiler's `Input Dims` (a list of tensors counts as one)."""
    if not isinstance(dims, list) or not dims or not isinstance(dims[0], list):
        return None
    first = dims[0]
    if first and all(isinstance(d, list) for d in first):
        return total([elements_of(shape) for shape in first])
    return elements_of(first) if first else None


def ranks_of(text: object) -> tuple[int, ...] | None:
    """The ranks in `[0, 1, 2]` or its text; None if the list is cut short or is none."""
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except (ValueError, RecursionError):
            return None
    if not isinstance(text, list) or not text or any(count(r, MAX_RANKS) is None for r in text):
        return None
    return tuple(text)


def _elements(kind: Kind, given: object, received: object) -> int | None:
    sizes = (count(given), count(received))
    full = sizes[1] if kind in GATHERED else sizes[0]
    if kind is Kind.P2P and not full:
        full = sizes[1]
    return None if kind is Kind.BARRIER else full
