"""Where every parameter lies: its row on each rank, its place in a unit's shard and in each bucket.

# Note [Rows]
Each parameter is flattened, padded to a multiple of the number of shards, and viewed as
`[shards, row]`; rank r owns row r (the even split of zerosim.partition). A unit's shard is its
parameters' rows end to end; a bucket is `[shards, row]` too, so that a reduce-scatter leaves each
rank one contiguous row. Which of it happens is read off the plan, never off a schedule's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim.partition import padded
from zerosim.plan import Op, Plan
from zerosim.schedules.bucket import Bucket, Part
from zerosim.schedules.layers import forward_order
from zerosim.workload import Unit, Workload
from zerosim_runtime.replicas import Reduction, reductions_of


@dataclass(frozen=True, slots=True)
class Piece:
    """One parameter. `row` elements of it lie on each rank, from `offset` of its unit's shard on."""

    unit: int
    index: int
    name: str
    shape: tuple[int, ...]
    numel: int
    row: int
    offset: int


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one parameter's row lies in a bucket's row (or in the part of one unit)."""

    piece: Piece
    offset: int


@dataclass(frozen=True, slots=True)
class Lane:
    """A bucket as memory: `[shards, row]` elements, cut into slots.

    `buffer` and `reduced` are the plan's keys of it and of this rank's row of its sum, where it has
    them.
    """

    bucket: Bucket
    row: int
    slots: tuple[Slot, ...]
    buffer: str = ""
    reduced: str = ""

    def of_unit(self, unit: int) -> tuple[Slot, ...]:
        """The slots of one unit."""
        return tuple(slot for slot in self.slots if slot.piece.unit == unit)


@dataclass(frozen=True, slots=True)
class Layout:
    """The memory map of a plan. `sharded`: parameters live in shards (ZeRO-3), else whole.

    `shards` is how many ranks share the optimizer states; `gradients` are the buckets that are
    reduced and scattered, `reductions` those that are all-reduced, `gathers` those that are
    all-gathered after the update. `units` are the units' names.
    """

    shards: int
    sharded: bool
    units: tuple[str, ...]
    pieces: tuple[tuple[Piece, ...], ...]
    gradients: tuple[Lane, ...]
    gathers: tuple[Lane, ...]
    reductions: tuple[Reduction, ...] = ()

    @property
    def in_place(self) -> bool:
        """Whether buckets are all-reduced: each rank keeps the whole sum."""
        return bool(self.reductions)

    def shard_elements(self, unit: int) -> int:
        """Elements of a unit that one rank owns, padding included."""
        return sum(piece.row for piece in self.pieces[unit])


def layout_of(plan: Plan, workload: Workload) -> Layout:
    """Read the memory map off a plan. Raises RuntimeFailedError if its sizes do not fit the workload."""
    first = [op for op in plan.ops if op.step == 1]
    reduces = any(op.kind is Kind.REDUCE_SCATTER for op in first)
    gathered = any(a.kind == "gathered" for op in first for a in op.allocates)
    shards = plan.world_size if reduces else 1
    pieces = tuple(_pieces(i, unit, shards) for i, unit in enumerate(workload.units))
    gradients = _gradient_buckets(first, workload) if reduces else ()
    updated = [op for op in first if op.kind is Kind.ALL_GATHER and op.bucket is not None]
    gathers = _gathered_buckets(updated, workload, pieces, shards)
    return Layout(
        shards,
        gathered,
        tuple(unit.name for unit in workload.units),
        pieces,
        tuple(_lanes(gradients, pieces, shards, _keys(first))),
        tuple(_lanes(gathers, pieces, shards, {})),
        () if reduces else reductions_of(plan, workload),
    )


def _pieces(number: int, unit: Unit, shards: int) -> tuple[Piece, ...]:
    rows = [padded(p.numel, shards) // shards for p in unit.parameters]
    offsets = accumulate(rows, initial=0)
    return tuple(
        Piece(number, i, p.name, p.shape, p.numel, row, offset)
        for i, (p, row, offset) in enumerate(zip(unit.parameters, rows, offsets, strict=False))
    )


def _gradient_buckets(ops: Iterable[Op], workload: Workload) -> tuple[Bucket, ...]:
    """The buckets as the plan's first fills and reductions name them."""
    unit_of = {unit.name: i for i, unit in enumerate(workload.units)}
    parts: dict[int, dict[int, int]] = {}
    labels: dict[int, str] = {}
    for op in ops:
        if op.bucket is None or op.elements is None or op.bucket in labels:
            continue
        if op.kind is Kind.FILL and op.unit is not None:
            parts.setdefault(op.bucket, {})[unit_of[op.unit]] = op.elements
        elif op.kind is Kind.REDUCE_SCATTER and op.unit is not None:
            labels[op.bucket] = op.unit
    return tuple(
        Bucket(index, labels[index], tuple(Part(u, n) for u, n in parts[index].items()))
        for index in sorted(labels)
    )


def _gathered_buckets(
    ops: Iterable[Op], workload: Workload, pieces: tuple[tuple[Piece, ...], ...], shards: int
) -> tuple[Bucket, ...]:
    """The buckets of the gathers after the update: parameters in forward order, until each is full."""
    waiting = (piece for unit in forward_order(workload) for piece in reversed(pieces[unit]))
    buckets: list[Bucket] = []
    for op in ops:
        parts: dict[int, int] = {}
        while sum(parts.values()) < (op.elements or 0):
            piece = next(waiting, None)
            if piece is None:
                raise RuntimeFailedError(f"'{op.name}' gathers more than there is: mend its plan")
            parts[piece.unit] = parts.get(piece.unit, 0) + piece.row * shards
        index = op.bucket if op.bucket is not None else len(buckets)
        buckets.append(Bucket(index, op.unit or "", tuple(Part(u, n) for u, n in parts.items())))
    return tuple(buckets)


def _keys(ops: Iterable[Op]) -> dict[tuple[Kind, int | None], str]:
    """What the fills and reductions of each bucket allocate first."""
    return {
        (op.kind, op.bucket): op.allocates[0].key
        for op in ops
        if op.kind in (Kind.FILL, Kind.REDUCE_SCATTER) and op.allocates
    }


def _lanes(
    buckets: Iterable[Bucket],
    pieces: tuple[tuple[Piece, ...], ...],
    shards: int,
    keys: dict[tuple[Kind, int | None], str],
) -> Iterator[Lane]:
    """Deal parameters to buckets: within a unit the last comes first, and none is ever split."""
    waiting = {unit: list(reversed(of_unit)) for unit, of_unit in enumerate(pieces)}
    for bucket in buckets:
        slots: list[Slot] = []
        offset = 0
        for part in bucket.parts:
            end = offset + part.elements // shards
            while offset < end:
                slots.append(Slot(_next_piece(waiting[part.unit], bucket), offset))
                offset += slots[-1].piece.row
            if offset != end:
                raise RuntimeFailedError(
                    f"bucket {bucket.index} takes {part.elements} elements of unit {part.unit}, "
                    f"which cuts a parameter: give buckets of whole parameters"
                )
        buffer = keys.get((Kind.FILL, bucket.index), "")
        reduced = keys.get((Kind.REDUCE_SCATTER, bucket.index), "")
        yield Lane(bucket, offset, tuple(slots), buffer, reduced)


def _next_piece(waiting: list[Piece], bucket: Bucket) -> Piece:
    if not waiting:
        raise RuntimeFailedError(
            f"bucket {bucket.index} takes more parameters than its units have: mend its plan"
        )
    return waiting.pop(0)
