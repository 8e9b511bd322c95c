"""Sets of half-open time intervals as pairs of arrays: union, difference, measure, all vectorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]

_SAFE: Final = 2**62


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals [starts[i], ends[i]) in ns, in any order; they may overlap."""

    starts: Times
    ends: Times

    def __len__(self) -> int:
        """How many intervals there are."""
        return len(self.starts)


def join(*parts: Intervals) -> Intervals:
    """All intervals of `parts`."""
    none = np.empty(0, dtype=np.int64)
    return Intervals(
        np.concatenate([none, *(p.starts for p in parts)]),
        np.concatenate([none, *(p.ends for p in parts)]),
    )


def clip(intervals: Intervals, low: int, high: int) -> Intervals:
    """What of `intervals` lies in [low, high)."""
    starts, ends = np.maximum(intervals.starts, low), np.minimum(intervals.ends, high)
    inside = starts < ends
    return Intervals(starts[inside], ends[inside])


def union(intervals: Intervals) -> Intervals:
    """The same set as disjoint intervals, ascending; those that touch become one."""
    order = np.argsort(intervals.starts, kind="stable")
    starts, ends = intervals.starts[order], intervals.ends[order]
    taken = starts < ends
    starts, ends = starts[taken], ends[taken]
    if not len(starts):
        return Intervals(starts, ends)
    reach = np.maximum.accumulate(ends)
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Intervals(starts[first], reach[last])


def measure(intervals: Intervals) -> int:
    """The length of the union, in ns: overlaps count once."""
    merged = union(intervals)
    return int((merged.ends - merged.starts).sum())


def subtract(intervals: Intervals, others: Intervals) -> Intervals:
    """The union of `intervals` without `others`, as disjoint intervals, ascending."""
    a, b = union(intervals), union(others)
    moments = np.concatenate([a.starts, a.ends, b.starts, b.ends])
    one = np.ones(len(a), dtype=np.int64)
    two = np.full(len(b), 2, dtype=np.int64)
    change = np.concatenate([one, -one, two, -two])
    order = np.argsort(moments, kind="stable")
    moments, state = moments[order], np.cumsum(change[order])
    # State 1 is "in `intervals` and in none of `others`"; it holds until the next moment.
    alone = np.flatnonzero((state[:-1] == 1) & (moments[:-1] < moments[1:]))
    return union(Intervals(moments[alone], moments[1:][alone]))


def gaps(intervals: Intervals, low: int, high: int) -> Intervals:
    """What of [low, high) lies in none of `intervals`."""
    window = Intervals(np.array([low], dtype=np.int64), np.array([high], dtype=np.int64))
    return subtract(window, intervals)


def measure_by(segments: NDArray[np.int64], intervals: Intervals, n_segments: int) -> Times:
    """The length of the union within each segment: interval i belongs to `segments[i]`, 0-based.

    Equal to `measure` segment by segment, in one sweep: each segment is moved to a stretch of
    time of its own.
    """
    totals = np.zeros(n_segments, dtype=np.int64)
    if not len(intervals):
        return totals
    low = int(intervals.starts.min())
    span = int(intervals.ends.max()) - low + 1
    if span * n_segments > _SAFE:
        return _measure_each(segments, intervals, totals)
    offset = segments * span - low
    merged = union(Intervals(intervals.starts + offset, intervals.ends + offset))
    np.add.at(totals, merged.starts // span, merged.ends - merged.starts)
    return totals


def _measure_each(segments: NDArray[np.int64], intervals: Intervals, totals: Times) -> Times:
    order = np.argsort(segments, kind="stable")
    bounds = np.searchsorted(segments[order], np.arange(len(totals) + 1))
    for i in np.flatnonzero(np.diff(bounds)):
        rows = order[bounds[i] : bounds[i + 1]]
        totals[i] = measure(Intervals(intervals.starts[rows], intervals.ends[rows]))
    return totals
