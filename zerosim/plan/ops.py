"""A plan: the program of a rank, as ops in the order in which its host issues them.

# Note [Streams are CUDA streams]
One host thread issues ops in order. Ops of a stream run in order. An op waits for the ops in
`after`. Collectives of one communicator run one at a time, in issue order, whatever their stream,
and a collective starts when its last member has arrived. Memory is allocated when the host issues
an op and dropped once it has issued the op that frees it. The program is the same for all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from zerosim.errors import PlanError
from zerosim.kinds import COMMUNICATION, MEMORY_KINDS, ORDERED, Kind, Reuse
from zerosim.units import dtype_bytes
from zerosim.workload import Work

ByRank = tuple[tuple[int, int], ...]
"""What differs by rank, from rank 0 on: runs of (how many ranks, the value of each)."""


def spread(values: Sequence[int]) -> ByRank:
    """Values of ranks 0, 1, … as runs of equal ones."""
    return tuple((len(list(run)), value) for value, run in groupby(values))


def at_rank(by_rank: ByRank, rank: int) -> int:
    """The value of one rank. Raises PlanError for a rank past the last run."""
    for count, value in by_rank:
        if rank < count:
            return value
        rank -= count
    raise PlanError(f"values for {sum(n for n, _ in by_rank)} ranks lack one: give all ranks'")


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory an op takes: `key` names it for the op that frees it, `kind` is a memory kind.

    Where ranks differ, `by_rank` says what each takes, and `nbytes` is the most.
    """

    key: str
    kind: str
    nbytes: int
    by_rank: ByRank | None = None

    def at(self, rank: int) -> int:
        """Bytes on one rank."""
        return self.nbytes if self.by_rank is None else at_rank(self.by_rank, rank)


def uneven(key: str, kind: str, values: Sequence[int]) -> Allocation:
    """An allocation of `values[rank]` bytes."""
    return Allocation(key, kind, max(values), spread(values) if len(set(values)) > 1 else None)


@dataclass(frozen=True, slots=True)
class Op:
    """One thing to do. `after` are ids of earlier ops; `elements` of a collective: the full tensor's.

    `flops` and `memory_bytes` are the work of a compute op, and `work` says by which kernels, if it
    is known; `blocks` makes the host wait for its end.
    Where ranks differ, `memory_bytes_by_rank` says what each moves, and `memory_bytes` is the most.
    """

    id: int
    name: str
    kind: Kind
    stream: str
    after: tuple[int, ...] = ()
    unit: str | None = None
    flops: int = 0
    memory_bytes: int = 0
    elements: int | None = None
    dtype: str | None = None
    group: str | None = None
    communicator: str | None = None
    bucket: int | None = None
    allocates: tuple[Allocation, ...] = ()
    frees: tuple[str, ...] = ()
    blocks: bool = False
    step: int = 1
    micro_batch: int = 0
    memory_bytes_by_rank: ByRank | None = None
    work: Work | None = None

    @property
    def nbytes(self) -> int | None:
        """Bytes of the full tensor, None if the op has none."""
        if self.elements is None or self.dtype is None:
            return None
        return self.elements * dtype_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class Axis:
    """Process groups of one shape: `size` ranks, `stride` apart (all ranks: the world, 1)."""

    name: str
    size: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """Ops in issue order, the process groups they name, and what each rank holds throughout.

    `steady_from`: the first step that all later ones are like; earlier ones warm up. `reuse`: when
    memory that crossed streams serves again.
    """

    name: str
    world_size: int
    ops: tuple[Op, ...]
    axes: tuple[Axis, ...]
    persistent: tuple[Allocation, ...] = ()
    steady_from: int = 1
    reuse: Reuse = Reuse.ORDERED

    def __post_init__(self) -> None:
        """Refuse a plan that could not be carried out."""
        _check(self)

    @property
    def order(self) -> str:
        """Names of computing and communicating ops in issue order: `AG0 F0 … OPT`."""
        return " ".join(op.name for op in self.ops if op.kind in ORDERED)

    def order_of(self, step: int) -> str:
        """The order of one step."""
        return " ".join(op.name for op in self.ops if op.step == step and op.kind in ORDERED)


def _check(plan: Plan) -> None:
    axes = {axis.name for axis in plan.axes}
    for axis in plan.axes:
        if axis.size < 1 or plan.world_size % (axis.size * axis.stride):
            raise PlanError(
                f"group '{axis.name}' of {axis.size} ranks {axis.stride} apart does not divide "
                f"{plan.world_size} ranks: choose sizes that do"
            )
    live: dict[str, int] = {}
    for position, op in enumerate(plan.ops):
        _check_op(op, position, axes)
        _check_ranks(op.memory_bytes_by_rank, plan.world_size, op.name)
        for allocation in op.allocates:
            _check_allocation(allocation, op.name)
            _check_ranks(allocation.by_rank, plan.world_size, op.name)
            if allocation.key in live:
                raise PlanError(f"op '{op.name}' allocates '{allocation.key}' twice: free it first")
            live[allocation.key] = position
        for key in op.frees:
            if live.pop(key, None) is None:
                raise PlanError(
                    f"op '{op.name}' frees '{key}', which nothing holds: allocate it first"
                )
    for allocation in plan.persistent:
        _check_allocation(allocation, plan.name)
        _check_ranks(allocation.by_rank, plan.world_size, plan.name)


def _check_ranks(by_rank: ByRank | None, world_size: int, owner: str) -> None:
    if by_rank is not None and sum(n for n, _ in by_rank) != world_size:
        given = sum(n for n, _ in by_rank)
        raise PlanError(f"'{owner}' gives values of {given} ranks: there are {world_size}")


def _check_op(op: Op, position: int, axes: set[str]) -> None:
    if op.id != position:
        raise PlanError(
            f"op '{op.name}' has id {op.id} at position {position}: number them in order"
        )
    if any(not 0 <= before < position for before in op.after):
        raise PlanError(f"op '{op.name}' waits for {op.after}: it may wait for earlier ops only")
    if op.flops < 0 or op.memory_bytes < 0 or (op.elements is not None and op.elements < 0):
        raise PlanError(f"op '{op.name}' has negative work: give 0 or more")
    if op.kind in COMMUNICATION:
        if op.group not in axes:
            raise PlanError(f"op '{op.name}' uses group '{op.group}': known are {sorted(axes)}")
        if op.communicator is None or op.nbytes is None:
            raise PlanError(f"collective '{op.name}' needs a communicator, elements and a dtype")


def _check_allocation(allocation: Allocation, owner: str) -> None:
    if allocation.kind not in MEMORY_KINDS or allocation.nbytes < 0:
        raise PlanError(
            f"'{owner}' allocates {allocation.nbytes} B of '{allocation.kind}': "
            f"give 0 B or more of {', '.join(MEMORY_KINDS)}"
        )
