"""The fast path where kernels run beside collectives: max-plus, its kernels stretched until nothing changes.

# Note [A fixed point is the run itself]
What a kernel takes depends on what runs beside it from its start on, which depends on what other
kernels take. Start from what each takes alone, and stretch each by what ran beside it; once a pass
changes nothing, all times agree with each other. Nothing at a time depends on anything later, so only
one set of times does: the one that SimPy finds. Two to seven passes are common for equal ranks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from zerosim.engine.contention import FULL_SPEED, Kernels, Taken, slowed
from zerosim.engine.folding import Folded
from zerosim.engine.maxplus import solve
from zerosim.engine.program import Int, Program, Times

MAX_PASSES: Final = 24
"""Past so many a run in SimPy is faster."""
MAX_LENGTH: Final = 2**33
"""Eight seconds; a longer kernel times FULL_SPEED is past 64 bits."""
MAX_MOMENT: Final = 2**62
"""Times of all classes side by side are within 64 bits."""
_SMS: Final = 2**12
_BANDWIDTH: Final = 2**28
"""What is taken is added up in one number: how many run, then SMs, then bandwidth."""


def settle(
    program: Program, folded: Folded, durations: list[Int | int], times: Times
) -> Times | None:
    """Times in which every kernel takes as long as it does beside what runs beside it.

    `durations` alone, and `times` of max-plus with them. Links are not shared. None if this is not
    found. See Note [A fixed point is the run itself].
    """
    if int(times.end.max(initial=0)) * 2 * folded.n_classes > MAX_MOMENT:
        return None
    kernels = _Kernels(program, folded, durations)
    if not kernels.longest:
        return times
    if kernels.longest >= MAX_LENGTH:
        return None
    beside = _Beside(program, folded, durations)
    given = list(durations)
    for _ in range(MAX_PASSES):
        stretched = kernels.stretched(times, *beside.taken(times))
        if not kernels.put(given, stretched):
            return times
        times = solve(program, folded, given)
    return None


class _Beside:
    """The collectives of a program, and what they take together from each class at each time."""

    def __init__(self, program: Program, folded: Folded, durations: list[Int | int]) -> None:
        found = [(i, op.taken) for i, op in enumerate(program.ops) if op.taken is not None]
        self._ops = [i for i, _ in found]
        shape = (len(found), folded.n_classes)
        self._moves = np.empty(shape, dtype=np.int64)
        for row, i in enumerate(self._ops):
            moved = program.ops[i].transfer
            wire = 0 if moved is None else np.subtract(durations[i], moved.latency_ns)
            self._moves[row] = np.maximum(0, wire)
        rings = [program.ops[i].ring is not None for i in self._ops]
        self._rings = np.asarray(rings, dtype=np.bool_)[:, None]
        held = [_packed(taken.waiting) for _, taken in found]
        bandwidth = [taken.bandwidth * _BANDWIDTH for _, taken in found]
        self._held = np.asarray(held, dtype=np.int64)
        self._bandwidth = np.asarray(bandwidth, dtype=np.int64)

    def taken(self, times: Times) -> tuple[Int, Int]:
        """Moments at which what is taken changes, from 0 on, and what is from then on, by class."""
        start, end = times.start[self._ops], times.end[self._ops]
        moves = np.where(self._rings, start, end - self._moves)
        when = np.concatenate([start, moves, end])
        change = np.concatenate([self._held, self._bandwidth, -self._held - self._bandwidth])
        order = np.argsort(when, axis=0, kind="stable")
        none = np.zeros((1, when.shape[1]), dtype=np.int64)
        moments = np.concatenate([none, np.take_along_axis(when, order, axis=0)])
        return moments, np.concatenate([none, np.cumsum(change[order], axis=0)])


class _Kernels:
    """The kernels of a program that run slower beside collectives."""

    def __init__(self, program: Program, folded: Folded, durations: list[Int | int]) -> None:
        found = [(i, op.kernels) for i, op in enumerate(program.ops) if op.kernels is not None]
        self._program = program
        self._ops = [i for i, _ in found]
        kinds: dict[Kernels, int] = {}
        self._kind = np.asarray([kinds.setdefault(k, len(kinds)) for _, k in found], dtype=np.int64)
        self._kinds = tuple(kinds)
        self._alone = np.empty((len(found), folded.n_classes), dtype=np.int64)
        for row, i in enumerate(self._ops):
            self._alone[row] = durations[i]
        self.longest = int(self._alone.max(initial=0))

    def put(self, given: list[Int | int], stretched: Int) -> bool:
        """Write what kernels take into `given`; whether that changes any."""
        one = stretched.shape[1] == 1
        rows: list[Int | int] = stretched[:, 0].tolist() if one else list(stretched)
        changed = False
        for i, row in zip(self._ops, rows, strict=True):
            changed = changed or not np.array_equal(given[i], row)
            given[i] = row
        return changed

    def stretched(self, times: Times, moments: Int, taken: Int) -> Int:
        """What each kernel takes from its start on, on each class, among what is `taken` when."""
        n_classes = moments.shape[1]
        starts = times.start[self._ops]
        span = int(max(times.end.max(initial=0), moments.max(initial=0))) + 1
        column = np.arange(n_classes) * span
        at = np.searchsorted((moments + column).T.ravel(), (starts + column).ravel(), side="right")
        states, state = np.unique(taken.T.ravel(), return_inverse=True)
        speeds = self._speeds([_unpacked(int(packed)) for packed in states])
        # After the last change of a class nothing changes any more.
        until = np.append(moments[1:], np.full_like(moments[:1], MAX_MOMENT), axis=0).T.ravel()
        kind = np.repeat(self._kind, n_classes)
        left, position = (self._alone * FULL_SPEED).ravel(), starts.ravel().copy()
        segment, going = at - 1, np.flatnonzero(left)
        while going.size:
            now = segment[going]
            speed = speeds[kind[going], state[now]]
            need, room = -(-left[going] // speed), until[now] - position[going]
            step = np.minimum(need, room)
            position[going] += step
            left[going] -= step * speed
            segment[going] += 1
            going = going[need > room]
        return position.reshape(starts.shape) - starts

    def _speeds(self, states: list[Taken]) -> Int:
        """Speeds of each kind of kernels in each state."""
        sms, tax = self._program.sms, self._program.contention.tax
        rows = [[slowed(kernels, taken, sms, tax) for taken in states] for kernels in self._kinds]
        return np.asarray(rows, dtype=np.int64).reshape(len(self._kinds), len(states))


def _packed(taken: Taken) -> int:
    return taken.running + _SMS * taken.sms + _BANDWIDTH * taken.bandwidth


def _unpacked(packed: int) -> Taken:
    rest, bandwidth = packed % _BANDWIDTH, packed // _BANDWIDTH
    return Taken(rest // _SMS, bandwidth, rest % _SMS)
