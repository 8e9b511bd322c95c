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
    shape = (len(program.ops), folded.n_classes)
    times = Times(*(np.zeros(shape, dtype=np.int64) for _ in range(3)))
    meets = [_Meeting.of(group) for group in folded.group_of]
    host: Int = np.zeros(1, dtype=np.int64)
    for i, op in enumerate(program.ops):
        times.issued[i] = host
        host = host + op.issue_ns
        ready, end = times.start[i], times.end[i]
        ready[:] = host
        for before in op.after:
            np.maximum(ready, times.end[before], out=ready)
        if op.ring is not None and folded.n_classes > 1:
            end[:] = ring_ends(ready, op.ring)
        elif op.axis is not None:
            np.add(meets[op.axis].latest(ready), durations[i], out=end)
        else:
            np.add(ready, durations[i], out=end)
        if op.blocks:
            host = np.maximum(host, end)
    return times


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
            return np.max(ready, keepdims=True)
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
    return start
