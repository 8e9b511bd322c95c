"""What a c10d op asks for, in the words of a trace: its kind, its full tensor, what its rank sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from zerosim.collectives import wire_bytes
from zerosim.kinds import Kind

Arguments = Sequence[Any]
"""The arguments of a c10d op as its schema lists them; those with default values may be missing."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`elements`, `nbytes`, `dtype` are the full tensor's, None: unknown.

    `root`: the member that a rooted collective starts from or ends at; `peer`: the other end of a
    send (`sends`) or a receive, None: any. `tensor`: the first one of them, for whoever knows it.
    """

    kind: Kind
    elements: int | None
    nbytes: int | None
    dtype: str | None
    tensor: torch.Tensor | None = None
    root: int | None = None
    peer: int | None = None
    sends: bool = False
    kept_bytes: int | None = None
    """Of an all-to-all: what this rank keeps of its own; None: its even share."""


def _asked(
    kind: Kind,
    tensors: Iterable[torch.Tensor],
    times: int = 1,
    **more: Any,  # noqa: ANN401 - the other fields of an Asked
) -> Asked:
    given = tuple(tensors)
    if not given:
        return Asked(kind, 0, 0, None, **more)
    elements = sum(t.numel() for t in given) * times
    nbytes = sum(t.numel() * t.element_size() for t in given) * times
    if given[0].layout is not torch.strided:
        # What a sparse tensor sends depends on its values on all ranks.
        return Asked(kind, None, None, _dtype(given[0]), None, **more)
    return Asked(kind, elements, nbytes, _dtype(given[0]), given[0], **more)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _group_size(group: Any) -> int:  # noqa: ANN401 - an unboxed ProcessGroup
    size: int = group.size()
    return size


def _alltoall_base(args: Arguments, group: Any) -> Asked:  # noqa: ANN401 - as above
    source, splits = args[1], args[4]
    kept = None
    if splits:
        per_row = source.numel() // max(1, source.shape[0]) * source.element_size()
        kept = splits[group.rank()] * per_row
    return _asked(Kind.ALL_TO_ALL, [source], kept_bytes=kept)


def _alltoall(args: Arguments, group: Any) -> Asked:  # noqa: ANN401 - as above
    own = args[1][group.rank()]
    return _asked(Kind.ALL_TO_ALL, args[1], kept_bytes=own.numel() * own.element_size())


_READERS: Final[dict[str, Callable[[Arguments, Any], Asked]]] = {
    "allgather_": lambda a, _: _asked(Kind.ALL_GATHER, a[0][0]),
    "_allgather_base_": lambda a, _: _asked(Kind.ALL_GATHER, [a[0]]),
    "allgather_coalesced_": lambda a, g: _asked(Kind.ALL_GATHER, a[1], _group_size(g)),
    "allgather_into_tensor_coalesced_": lambda a, _: _asked(Kind.ALL_GATHER, a[0]),
    "reduce_scatter_": lambda a, _: _asked(Kind.REDUCE_SCATTER, a[1][0]),
    "_reduce_scatter_base_": lambda a, _: _asked(Kind.REDUCE_SCATTER, [a[1]]),
    "reduce_scatter_tensor_coalesced_": lambda a, _: _asked(Kind.REDUCE_SCATTER, a[1]),
    "allreduce_": lambda a, _: _asked(Kind.ALL_REDUCE, a[0]),
    "allreduce_coalesced_": lambda a, _: _asked(Kind.ALL_REDUCE, a[0]),
    "broadcast_": lambda a, _: _asked(Kind.BROADCAST, a[0], root=a[2]),
    "reduce_": lambda a, _: _asked(Kind.REDUCE, a[0], root=a[3]),
    "gather_": lambda a, g: _asked(Kind.GATHER, a[1], _group_size(g), root=a[3]),
    "scatter_": lambda a, g: _asked(Kind.SCATTER, a[0], _group_size(g), root=a[3]),
    "alltoall_": _alltoall,
    "alltoall_base_": _alltoall_base,
    "barrier": lambda _, __: Asked(Kind.BARRIER, 0, 0, None),
    "monitored_barrier_": lambda _, __: Asked(Kind.BARRIER, 0, 0, None),
    "send": lambda a, _: _asked(Kind.P2P, a[0], peer=a[2], sends=True),
    "recv_": lambda a, _: _asked(Kind.P2P, a[0], peer=a[2]),
    "recv_any_source_": lambda a, _: _asked(Kind.P2P, a[0]),
}
OPS: Final = tuple(_READERS)
"""The c10d ops that move or wait; everything else in torch.distributed is made of them."""
GROUP_AT: Final = {
    op: 1
    if op
    in (
        "allreduce_",
        "allreduce_coalesced_",
        "broadcast_",
        "reduce_",
        "barrier",
        "monitored_barrier_",
        "send",
        "recv_",
        "recv_any_source_",
    )
    else 2
    for op in OPS
}
"""Which argument is the process group."""


TITLES: Final = {
    "allreduce_": "gloo:all_reduce",
    "allreduce_coalesced_": "gloo:all_reduce",
    "reduce_scatter_": "gloo:all_reduce",
    "_reduce_scatter_base_": "gloo:all_reduce",
    "reduce_scatter_tensor_coalesced_": "gloo:all_reduce",
    "broadcast_": "gloo:broadcast",
    "reduce_": "gloo:reduce",
    "gather_": "gloo:gather",
    "scatter_": "gloo:scatter",
    "alltoall_": "gloo:all_to_all",
    "alltoall_base_": "gloo:all_to_all",
    "barrier": "gloo:barrier",
    "send": "gloo:send",
    "recv_": "gloo:recv",
    "recv_any_source_": "gloo:recv",
}
"""What Gloo calls the ops; the others are `gloo:all_gather`."""
_SILENT: Final = ("send", "recv_", "recv_any_source_")


def _pieces_of(op: str, args: Arguments) -> int:
    # A reduce-scatter of a list is as many all-reduces.
    if op == "reduce_scatter_":
        return len(args[1][0])
    return len(args[1]) if op == "reduce_scatter_tensor_coalesced_" else 1


_SINGLE: Final = {
    "allreduce_": (0, True),
    "broadcast_": (0, True),
    "_allgather_base_": (0, False),
    "_reduce_scatter_base_": (1, False),
}
"""Ops that as a rule move a single tensor: the argument that holds it, and whether it is in a list."""


def single(op: str, args: Arguments) -> torch.Tensor | None:
    """The only full tensor of an op that says everything by it; None: it must be read."""
    place = _SINGLE.get(op)
    if place is None:
        return None
    found = args[place[0]]
    if not place[1]:
        only: torch.Tensor = found
        return only
    return found[0] if len(found) == 1 else None


def read(op: str, args: Arguments, group: Any) -> Asked:  # noqa: ANN401 - an unboxed ProcessGroup
    """What the op `op` of c10d asks for with these arguments."""
    return _READERS[op](args, group)


@dataclass(frozen=True, slots=True)
class Sort:
    """What calls of the same op, group and size have in common.

    `silent`: its work never says that it is over (Gloo's reduce-scatter and messages do not).
    `n_pieces`: in how many pieces Gloo carries it out, each of which it calls `title`.
    """

    asked: Asked
    sent_bytes: int | None
    title: str
    n_pieces: int
    silent: bool
    element_bytes: int
    backend: str


def sort_of(op: str, args: Arguments, asked: Asked, member: tuple[int, int], backend: str) -> Sort:
    """The sort of a call; `member`: whose place in the group's size it is. It holds no tensor."""
    return Sort(
        asked=replace(asked, tensor=None),
        sent_bytes=sent_bytes(asked, *member, backend),
        title=TITLES.get(op, "gloo:all_gather"),
        n_pieces=_pieces_of(op, args),
        silent=op in _SILENT or asked.kind is Kind.REDUCE_SCATTER,
        element_bytes=1 if asked.tensor is None else asked.tensor.element_size(),
        backend=backend,
    )


def sent_bytes(asked: Asked, rank: int, n_ranks: int, backend: str) -> int | None:
    """Bytes that member `rank` of a group of `n_ranks` sends; None: unknown.

    A ring's, as `zerosim.collectives` counts them; of a broadcast or a reduce the mean of the ranks.
    """
    if asked.nbytes is None or asked.kind is Kind.BARRIER:
        return None
    if asked.kind is Kind.P2P:
        return asked.nbytes if asked.sends else 0
    if asked.kind is Kind.GATHER:
        return 0 if rank == asked.root else asked.nbytes // n_ranks
    if asked.kind is Kind.SCATTER:
        return asked.nbytes // n_ranks * (n_ranks - 1) if rank == asked.root else 0
    if asked.kind is Kind.ALL_TO_ALL and asked.kept_bytes is not None:
        return asked.nbytes - asked.kept_bytes
    return wire_bytes(asked.kind, asked.nbytes, n_ranks, backend)
