"""Where gradients lie that are all-reduced: one buffer of all buckets, cut as each backward fills it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim.plan import Op, Plan
from zerosim.schedules.arrival import Key, arrived
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Place:
    """A parameter (unit, index) whose gradient lies in the buffer from `start` to `end`."""

    key: Key
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """A backward that fills buckets and reduces them.

    `fills` are the places that each fill op fills, in the order of the ops; `buckets` the stretch of
    the buffer that each bucket is; `last` the id of the last op about them.
    """

    fills: Mapping[int, tuple[Place, ...]]
    buckets: Mapping[int, tuple[int, int]]
    last: int

    @property
    def stretches(self) -> tuple[tuple[Place, ...], ...]:
        """The places of the first fill, of the second, …"""
        return tuple(self.fills.values())

    @property
    def places(self) -> tuple[Place, ...]:
        """All places, in the order of the buffer."""
        every = (place for places in self.fills.values() for place in places)
        return tuple(sorted(every, key=lambda place: place.start))

    def of_bucket(self, bucket: int) -> tuple[Place, ...]:
        """The places in one bucket."""
        start, end = self.buckets[bucket]
        return tuple(place for place in self.places if start <= place.start < end)


def reductions_of(plan: Plan, workload: Workload) -> tuple[Reduction, ...]:
    """Read them off a plan: fills take parameters as gradients arrive. Raises RuntimeFailedError."""
    about = [op for op in plan.ops if op.bucket is not None]
    found: list[Reduction] = []
    known: dict[tuple[tuple[int | None, int | None], ...], Reduction] = {}
    for _, ops in groupby(about, key=lambda op: (op.step, op.micro_batch)):
        mine = list(ops)
        fills = [op for op in mine if op.kind is Kind.FILL]
        shape = tuple((op.bucket, op.elements) for op in fills)
        like = known.get(shape)
        places = tuple(like.fills.values()) if like else _placed(fills, workload)
        by_op = dict(zip((op.id for op in fills), places, strict=True))
        buckets = like.buckets if like else _stretches(fills)
        known[shape] = Reduction(by_op, buckets, mine[-1].id)
        found.append(known[shape])
    return tuple(found)


def reduction_at(reductions: Sequence[Reduction], op: Op) -> Reduction:
    """The reduction that `op` is part of, or the next one after it."""
    return reductions[bisect_left(reductions, op.id, key=lambda reduction: reduction.last)]


def _stretches(fills: Iterable[Op]) -> dict[int, tuple[int, int]]:
    sizes: dict[int, int] = {}
    for op in fills:
        if op.bucket is not None:
            sizes[op.bucket] = sizes.get(op.bucket, 0) + (op.elements or 0)
    found: dict[int, tuple[int, int]] = {}
    start = 0
    for bucket in sorted(sizes):
        found[bucket] = (start, start + sizes[bucket])
        start += sizes[bucket]
    return found


def _placed(fills: Sequence[Op], workload: Workload) -> tuple[tuple[Place, ...], ...]:
    next_start = {bucket: start for bucket, (start, _) in _stretches(fills).items()}
    waiting = iter(arrived(workload))
    found: list[tuple[Place, ...]] = []
    for op in fills:
        start = next_start[op.bucket or 0]
        places = tuple(_taken(op, waiting, start, workload))
        next_start[op.bucket or 0] = places[-1].end
        found.append(places)
    if next(waiting, None) is not None:
        raise RuntimeFailedError("the plan fills fewer gradients than there are: mend its plan")
    return tuple(found)


def _taken(op: Op, waiting: Iterator[Key], start: int, workload: Workload) -> Iterator[Place]:
    end = start + (op.elements or 0)
    while start < end:
        key = next(waiting, None)
        if key is None:
            raise RuntimeFailedError(
                f"bucket {op.bucket} takes more parameters than its units have: mend its plan"
            )
        unit, index = key
        yield Place(key, start, start + workload.units[unit].parameters[index].numel)
        start += workload.units[unit].parameters[index].numel
    if start != end:
        raise RuntimeFailedError(
            f"bucket {op.bucket} takes {op.elements} elements of unit {op.unit}, "
            "which cuts a parameter: give buckets of whole parameters"
        )
