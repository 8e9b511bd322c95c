"""What changes over time in a simulated run: memory by kind, bucket fills, link rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from zerosim.engine.folding import Folded
from zerosim.engine.program import Int, Program, Times
from zerosim.kinds import COMMUNICATION, MEMORY_KINDS, Kind
from zerosim.memory.held import THROUGHOUT, Held
from zerosim.memory.reserved import reserved
from zerosim.plan import Plan
from zerosim.units import NS_PER_S

_COUNTERS: Final = (
    *(f"memory.{kind}" for kind in MEMORY_KINDS),
    "memory.allocated",
    "memory.in_use",
    "memory.reserved",
    "bucket.fill",
)
_ALLOCATED: Final = _COUNTERS.index("memory.allocated")
_IN_USE: Final = _COUNTERS.index("memory.in_use")
_FILL: Final = _COUNTERS.index("bucket.fill")
_RESERVED: Final = _COUNTERS.index("memory.reserved")


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes of counters: columns of shape [changes], `when` and `change` also [changes, classes].

    Changes of one moment stand in the order of `place`: that of the ops, what an op takes before
    what it drops. An op starts at the end of one that stands before it, so the dropped comes first.
    """

    counter: Int
    place: Int
    when: Int
    change: Int


def sampled(
    plan: Plan,
    held: Held,
    program: Program,
    folded: Folded,
    times: Times,
    *,
    caching: bool = False,
) -> pl.DataFrame:
    """The samples of each class's representative, in the order of the classes, then of time.

    `held`: the plan's `allocations`; `caching`: whether there is a caching allocator to be followed.
    """
    n_classes = folded.n_classes
    parts = [
        _memory(held, program, times, folded.representatives),
        _fills(plan, times),
        _links(program, folded, times),
    ]
    if caching:
        parts.append(_reserved(plan, folded, times))
    place = np.concatenate([part.place for part in parts]).argsort(kind="stable")
    counter = np.concatenate([part.counter for part in parts])[place]
    when = np.concatenate([part.when for part in parts])[place]
    order = when.argsort(axis=0, kind="stable")
    change = np.concatenate([_wide(part.change, n_classes) for part in parts])[place]
    of_class = np.repeat(np.arange(n_classes), len(place))
    counter = counter[order].T.ravel()
    when = np.take_along_axis(when, order, axis=0).T.ravel()
    change = np.take_along_axis(change, order, axis=0).T.ravel()
    kept = change != 0
    names = pl.Series(
        [*_COUNTERS, *(f"link.{link}" for link in program.capacity)], dtype=pl.Categorical()
    )
    value = _sums(change, of_class * len(names) + counter)
    return pl.DataFrame(
        {
            "time_ns": when[kept],
            "rank": np.asarray(folded.representatives, dtype=np.int32)[of_class[kept]],
            "counter": names.gather(counter[kept].astype(np.uint32)),
            "value": value[kept],
        }
    )


def _wide(change: Int, n_classes: int) -> Int:
    wide: Int = (
        change if change.ndim > 1 else np.broadcast_to(change[:, None], (len(change), n_classes))
    )
    return wide


def _sums(change: Int, series: Int) -> Int:
    """Running sums of `change`, each of the interleaved `series` for itself."""
    # Numbers of 16 bits or fewer are sorted by radix, without comparing them.
    apart = series.astype(np.min_scalar_type(int(series.max(initial=0)))).argsort(kind="stable")
    total = change[apart].cumsum()
    first = np.flatnonzero(np.diff(series[apart], prepend=-1))
    before = total[first] - change[apart][first]
    sums = np.empty_like(total)
    sums[apart] = total - np.repeat(before, np.diff(first, append=len(series)))
    return sums


def _memory(held: Held, program: Program, times: Times, ranks: Sequence[int]) -> _Changes:
    """Allocated in host order, op by op; in use, and by kind, in device order."""
    kind, _, by, until = held.rows.T
    nbytes = held.nbytes(ranks)
    dropped = until != THROUGHOUT
    left, freed = until[dropped], -nbytes[dropped]
    issue = np.asarray([op.issue_ns for op in program.ops], dtype=np.int64)[:, None]
    # One row more, the last, for what is held throughout: it is there from 0 on.
    issued, ready, start, end = (
        np.concatenate([moment, np.zeros_like(moment[:1])])
        for moment in (times.issued, times.issued + issue, times.start, times.end)
    )
    allocated = np.full_like(kind, _ALLOCATED), np.full_like(left, _ALLOCATED)
    in_use = np.full_like(kind, _IN_USE), np.full_like(left, _IN_USE)
    return _Changes(
        counter=np.concatenate([*allocated, *in_use, kind, kind[dropped]]),
        place=np.concatenate([2 * by, 2 * left + 1] * 3),
        when=np.concatenate([issued[by], ready[left], *[start[by], end[left]] * 2]),
        change=np.concatenate([nbytes, freed] * 3),
    )


def _reserved(plan: Plan, folded: Folded, times: Times) -> _Changes:
    """What the caching allocator reserves, in host order, op by op."""
    change = np.zeros((len(plan.ops) + 1, folded.n_classes), dtype=np.int64)
    for c, rank in enumerate(folded.representatives):
        moments = times.issued[:, c].tolist(), times.end[:, c].tolist()
        for op, more in reserved(plan, rank, moments=moments).changes:
            change[op, c] = more
    ops = np.append(np.arange(len(plan.ops)), THROUGHOUT)
    when = np.concatenate([times.issued, np.zeros_like(times.issued[:1])])
    return _Changes(np.full_like(ops, _RESERVED), 2 * ops, when, change)


def _fills(plan: Plan, times: Times) -> _Changes:
    """Bytes in buckets that are not under way yet."""
    filled: dict[int, int] = {}
    rows: list[tuple[int, int]] = []
    for op in plan.ops:
        if op.bucket is None:
            continue
        if op.kind is Kind.FILL and op.nbytes is not None:
            filled[op.bucket] = filled.get(op.bucket, 0) + op.nbytes
            rows.append((op.id, op.nbytes))
        elif op.kind in COMMUNICATION and op.kind is not Kind.ALL_GATHER and op.bucket in filled:
            rows.append((op.id, -filled.pop(op.bucket)))
    ops, change = np.asarray(rows, dtype=np.int64).reshape(-1, 2).T
    when = np.where(change[:, None] > 0, times.end[ops], times.start[ops])
    return _Changes(np.full_like(ops, _FILL), 2 * ops, when, change)


def _links(program: Program, folded: Folded, times: Times) -> _Changes:
    """Bytes a second on each link, as the mean over each transfer, from its last arrival on.

    A message-level ring moves bytes from a rank's own arrival on; what comes faster than its link
    was sent while it was still away.
    """
    links = {link: len(_COUNTERS) + i for i, link in enumerate(program.capacity)}
    rows = [
        (i, links[link], nbytes, op.transfer.latency_ns, -1 if op.ring is not None else op.axis)
        for i, op in enumerate(program.ops)
        if op.transfer is not None and op.axis is not None
        for link, nbytes in op.transfer.loads
    ]
    ops, counter, nbytes, latency, axis = np.asarray(rows, dtype=np.int64).reshape(-1, 5).T
    arrived = times.start[ops]
    if folded.n_classes > 1:
        for number, group in enumerate(folded.group_of):
            mine = axis == number
            arrived[mine] = _latest(arrived[mine], group)
    begin, end = arrived + latency[:, None], times.end[ops]
    seconds = np.maximum(end - begin, 1) / NS_PER_S
    rates = np.where(end > begin, nbytes[:, None] / seconds, 0.0)
    most = np.asarray(list(program.capacity.values()))[counter - len(_COUNTERS)]
    rates = np.where((axis < 0)[:, None], np.minimum(rates, most[:, None]), rates).astype(np.int64)
    return _Changes(
        counter=np.concatenate([counter, counter]),
        place=np.concatenate([2 * ops + 1, 2 * ops]),
        when=np.concatenate([begin, end]),
        change=np.concatenate([rates, -rates]),
    )


def _latest(arrived: Int, group: Int) -> Int:
    """Per class, the latest arrival of the classes it meets: shape [collectives, classes]."""
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    latest: Int = np.maximum.reduceat(arrived[:, order], first, axis=1)[:, group]
    return latest
