"""One measured collective: what it moved among how many ranks, and how long it took."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.collectives import bus_factor
from zerosim.errors import MeasurementError
from zerosim.kinds import Kind
from zerosim.units import DTYPE_BYTES

MAX_FILE: Final = 2**26
"""A day of nccl-tests prints a few megabytes."""
MAX_ROWS: Final = 200_000
MAX_BYTES: Final = 2**50
"""A petabyte in one collective is a slip of the pen."""
MAX_SECONDS: Final = 3600.0
MAX_RANKS: Final = 2**20
MAX_BUSBW: Final = 1e13
"""Bytes a second; ten times the fastest link there is."""
KINDS: Final = (
    Kind.ALL_GATHER,
    Kind.REDUCE_SCATTER,
    Kind.ALL_REDUCE,
    Kind.BROADCAST,
    Kind.REDUCE,
    Kind.ALL_TO_ALL,
    Kind.P2P,
)
_DTYPES: Final = {
    "float": "float32",
    "half": "float16",
    "bf16": "bfloat16",
    "double": "float64",
    "char": "int8",
    "int": "int32",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "uint32": "int32",
    "uint64": "int64",
}
"""nccl-tests' names of dtypes that are not torch's; unsigned ones are as wide as signed ones."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A collective of `nbytes` (nccl-tests' size: all that an all-gather gives, a reduce-scatter takes).

    `n_nodes` None: not said. `in_place` None: not said. `seconds` is what the caller waits, a launch
    included. `dtype` is torch's name, "" if unknown.
    """

    kind: Kind
    n_ranks: int
    n_nodes: int | None
    nbytes: int
    seconds: float
    dtype: str = ""
    in_place: bool | None = None

    @property
    def busbw(self) -> float:
        """Bus bandwidth as nccl-tests counts it (doc/PERFORMANCE.md), bytes a second."""
        return self.nbytes / self.seconds * bus_factor(self.kind, self.n_ranks)


def checked(timing: Timing, place: str) -> Timing:
    """`timing`, if it can be true. `place` begins the sentence of what cannot.

    Raises MeasurementError for sizes, ranks and times out of range, and for a rate no link has.
    """
    for what, value, least, most in (
        ("ranks", timing.n_ranks, 2, MAX_RANKS),
        ("nodes", 1 if timing.n_nodes is None else timing.n_nodes, 1, timing.n_ranks),
        ("bytes", timing.nbytes, 1, MAX_BYTES),
    ):
        if not least <= value <= most:
            raise MeasurementError(f"{place}: {what} is {value}: give {least} to {most}")
    if not math.isfinite(timing.seconds) or not 0 < timing.seconds <= MAX_SECONDS:
        raise MeasurementError(
            f"{place}: the time is {timing.seconds} s: give one above 0, at most {MAX_SECONDS:g}"
        )
    if timing.busbw > MAX_BUSBW:
        raise MeasurementError(
            f"{place}: {timing.nbytes} bytes in {timing.seconds:g} s is more than any link carries: "
            "check the unit of the time (µs)"
        )
    return timing


def torch_dtype(name: str) -> str:
    """The name that torch has for a dtype that nccl-tests names; "" where it has none."""
    found = _DTYPES.get(name, name)
    return found if found in DTYPE_BYTES else ""


def read_text(path: Path) -> str:
    """The text of a file of measurements. Raises MeasurementError."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise MeasurementError(f"'{path}' is not a file: give the output of nccl-tests, or CSV")
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except OSError as error:
        raise MeasurementError(
            f"cannot read '{path}': {error.strerror or error}; check the path"
        ) from None
    if len(raw) > MAX_FILE:
        raise MeasurementError(f"'{path}' holds more than {MAX_FILE} bytes: give fewer runs a file")
    if b"\0" in raw:
        raise MeasurementError(f"'{path}' is no text: give the output of nccl-tests, or CSV")
    return raw.decode(errors="replace").removeprefix("\ufeff")
