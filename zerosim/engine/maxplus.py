"""The fast path: start = max of what it waits for, end = start + duration, for all classes at once."""

from __future__ import annotations

import numpy as np

from zerosim.engine.folding import Folded
from zerosim.engine.program import Int, Program, Ring, Times


def solve(program: Program, folded: Folded, durations: list[Int | int]) -> Times:
    """Times of every op and class, if no two transfers share a link at one moment.

    `durations`: per op, ns as a number or an array over classes. Ops are in an order in which what
    one waits for stands before it, so that one pass is enough.
    """
    if folded.n_classes == 1:
        return _solve_one(program, durations)
    shape = (len(program.ops), folded.n_classes)
    start, end = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    meets = [_Meeting.of(group) for group in folded.group_of]
    issued: list[Int] = []
    host: Int = np.zeros(1, dtype=np.int64)
    for i, op in enumerate(program.ops):
        issued.append(host)
        host = host + op.issue_ns
        ready: Int = host
        for before in op.after:
            ready = np.maximum(ready, end[before], out=start[i])
        if ready is host:
            start[i] = host
        if op.ring is not None:
            axis = 0 if op.axis is None else op.axis
            latest = meets[axis].latest(start[i])
            end[i] = np.maximum(
                ring_ends(start[i], op.ring) + durations[i] - op.duration_ns, latest
            )
        elif op.axis is not None:
            np.add(meets[op.axis].latest(start[i]), durations[i], out=end[i])
        else:
            np.add(start[i], durations[i], out=end[i])
        if op.blocks:
            host = np.maximum(host, end[i])
    return Times(_stacked(issued, shape), start, end)


def _stacked(issued: list[Int], shape: tuple[int, int]) -> Int:
    """Issue times as one array; not copied for every class if no op blocks the host."""
    if all(row.size == 1 for row in issued):
        return np.broadcast_to(np.concatenate(issued)[:, None], shape)
    return np.stack([np.broadcast_to(row, shape[1:]) for row in issued])


def _solve_one(program: Program, durations: list[Int | int]) -> Times:
    """The same for one class, in plain integers: numpy would cost more than it saves."""
    issued: list[int] = []
    start: list[int] = []
    end: list[int] = []
    host = 0
    for op, duration in zip(program.ops, durations, strict=True):
        issued.append(host)
        host += op.issue_ns
        ready = host
        for before in op.after:
            if end[before] > ready:  # noqa: PLR1730 - max() would double the time of the loop
                ready = end[before]
        start.append(ready)
        end.append(ready + (duration if isinstance(duration, int) else int(duration[0])))
        if op.blocks:
            host = max(host, end[-1])
    return Times(*(np.asarray(times, dtype=np.int64)[:, None] for times in (issued, start, end)))


class _Meeting:
    """The latest of all classes that meet in a group."""

    __slots__ = ("group", "offsets", "order")

    def __init__(self, group: Int, order: Int | None, offsets: Int | None) -> None:
        self.group = group
        self.order = order
        self.offsets = offsets

    @classmethod
    def of(cls, group: Int) -> _Meeting:
        if not group.any():
            return cls(group, None, None)
        order = np.argsort(group, kind="stable").astype(np.int64)
        offsets = np.flatnonzero(np.diff(group[order], prepend=-1)).astype(np.int64)
        return cls(group, order, offsets)

    def latest(self, ready: Int) -> Int:
        if self.order is None or self.offsets is None:
            everyone: Int = np.max(ready, keepdims=True)
            return everyone
        latest: Int = np.maximum.reduceat(ready[self.order], self.offsets)[self.group]
        return latest


def ring_ends(start: Int, ring: Ring) -> Int:
    """Ends of a message-level ring whose ranks start at `start` (shape [ranks]), exactly.

    One phase is the loop `x_r <- start_r + e; n-1 times: x_r <- max(x_r, x_(r-1) + d) + e`. Unrolled,
    `x_r = n·e + max over j < n of (start_(r-j) + j·d)`: a maximum over the ranks up to r (a running
    maximum from the left) and over those after r, a lap behind (one from the right).
    """
    for n, stride, message_ns in ring.phases:
        rings = start.reshape(-1, n, stride)
        hops = (np.arange(n, dtype=np.int64) * message_ns)[None, :, None]
        level = rings - hops
        latest = np.maximum.accumulate(level, axis=1)
        behind = np.maximum.accumulate(level[:, ::-1], axis=1)[:, ::-1] + n * message_ns
        np.maximum(latest[:, :-1], behind[:, 1:], out=latest[:, :-1])
        start = (latest + hops + n * ring.endpoint_ns).reshape(-1)
    return start + ring.base_ns
