"""The reference: a SimPy process per stream and rank class, one rendezvous event per collective."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from zerosim.collectives import Transfer
from zerosim.engine.fabric import Demand, Fabric
from zerosim.engine.folding import Folded
from zerosim.engine.maxplus import ring_ends
from zerosim.engine.program import Int, Program, Times
from zerosim.errors import PlanError
from zerosim.units import NS_PER_S

Process = Generator[simpy.Event, Any, None]


def run(program: Program, folded: Folded, durations: list[Int | int], *, fluid: bool) -> Times:
    """Times of every op and class. With `fluid`, transfers that run at once share their links.

    Raises PlanError for an op that waits for itself.
    """
    env = simpy.Environment(initial_time=0)
    state = _Run(env, program, folded, durations, fluid=fluid)
    streams = _by_stream(program)
    for c in range(folded.n_classes):
        env.process(state.host(c))
        for ops in streams:
            env.process(state.stream(c, ops))
    env.run()
    return state.times()


def _by_stream(program: Program) -> list[list[int]]:
    streams: dict[int, list[int]] = {}
    for i, op in enumerate(program.ops):
        streams.setdefault(op.stream, []).append(i)
    return list(streams.values())


def _never(n_classes: int, n_ops: int) -> list[list[float]]:
    """A time of every class and op, all of them still to come. They are whole: so is the clock."""
    return [[-1] * n_ops for _ in range(n_classes)]


class _Run:
    """One simulation: when each op was issued, began and ended (by class), and who waits for it."""

    def __init__(
        self,
        env: simpy.Environment,
        program: Program,
        folded: Folded,
        durations: list[Int | int],
        *,
        fluid: bool,
    ) -> None:
        self._env = env
        self._program = program
        self._fabric = Fabric(env)
        self._shares = [fluid and bool(op.transfer and op.transfer.loads) for op in program.ops]
        self._durations = _rows(durations, folded.n_classes)
        self._group_of = [group.tolist() for group in folded.group_of]
        self._size = [np.bincount(group).tolist() for group in folded.group_of]
        self._issued, self._ready, self._started, self._ended = (
            _never(folded.n_classes, len(program.ops)) for _ in range(4)
        )
        self._waiting: list[dict[int, simpy.Event]] = [{} for _ in range(folded.n_classes)]
        self._meetings: dict[tuple[int, int], _Rendezvous] = {}
        self._demands: dict[tuple[Transfer, int, int], Demand] = {}

    def host(self, c: int) -> Process:
        """The host thread of a class: issues in order, and waits where an op blocks it.

        Up to the next op that blocks, issue times are sums of costs: they need no events.
        """
        waiting, ended = self._waiting[c], self._ended[c]
        now: float = 0
        for i, op in enumerate(self._program.ops):
            self._issued[c][i] = now
            now += op.issue_ns
            self._ready[c][i] = now
            if ~i in waiting:
                waiting.pop(~i).succeed()
            if op.blocks:
                if ended[i] < 0:
                    yield self._until(waiting, i)
                now = max(now, ended[i])

    def stream(self, c: int, ops: list[int]) -> Process:
        """One stream of a class: its ops in order, each after its issue and what it waits for."""
        env, waiting, durations = self._env, self._waiting[c], self._durations[c]
        ready, started, ended = self._ready[c], self._started[c], self._ended[c]
        alone = [
            size[group[c]] == 1 for size, group in zip(self._size, self._group_of, strict=True)
        ]
        for i in ops:
            op = self._program.ops[i]
            if ready[i] < 0:
                yield self._until(waiting, ~i)
            if ready[i] > env.now:
                yield env.timeout(ready[i] - env.now)
            for before in op.after:
                if ended[before] < 0:
                    yield self._until(waiting, before)
            started[i] = env.now
            if op.axis is not None and not alone[op.axis]:
                meeting = self._arrive(i, c, op.axis)
                yield meeting
                if meeting.ends:
                    yield env.timeout(meeting.ends[c] - env.now)
            elif op.axis is not None and self._shares[i]:
                yield from self._move(i, c, op.axis)
            elif durations[i]:
                yield env.timeout(durations[i])
            ended[i] = env.now
            if i in waiting:
                waiting.pop(i).succeed()

    def times(self) -> Times:
        """What happened, once nothing is left to happen. Raises PlanError for an op that never ran."""
        ended = np.asarray(self._ended, dtype=np.int64).T
        if (ended < 0).any():
            stuck = int(np.argmax((ended < 0).any(axis=1)))
            raise PlanError(f"op {stuck} never ran: what it waits for waits for it")
        issued, started = (np.asarray(t, dtype=np.int64).T for t in (self._issued, self._started))
        return Times(issued, started, ended)

    def _until(self, waiting: dict[int, simpy.Event], i: int) -> simpy.Event:
        """The end of op `i`, or its issue for `~i`; made only where someone waits."""
        event = waiting.get(i)
        if event is None:
            event = waiting[i] = self._env.event()
        return event

    def _arrive(self, i: int, c: int, axis: int) -> _Rendezvous:
        """Arrive at a collective; the last to arrive sets off its end, for all who wait for it."""
        group = self._group_of[axis][c]
        meeting = self._meetings.get((i, group))
        if meeting is None:
            meeting = _Rendezvous(self._env, self._size[axis][group])
            self._meetings[i, group] = meeting
        meeting.missing -= 1
        if meeting.missing:
            return meeting
        del self._meetings[i, group]
        ring = self._program.ops[i].ring
        if ring is not None:
            starts = np.asarray([started[i] for started in self._started], dtype=np.int64)
            meeting.ends = ring_ends(starts, ring).tolist()
            meeting.succeed()
        elif self._shares[i]:
            self._env.process(self._move(i, c, axis, meeting))
        else:
            meeting.succeed_after(self._durations[c][i])
        return meeting

    def _move(self, i: int, c: int, axis: int, meeting: _Rendezvous | None = None) -> Process:
        """Move the bytes of a collective over links that others may use, too."""
        moved = self._program.ops[i].transfer or Transfer(0, ())
        wire_ns = self._durations[c][i] - moved.latency_ns
        if moved.latency_ns:
            yield self._env.timeout(moved.latency_ns)
        if wire_ns > 0:
            group = self._group_of[axis][c]
            yield self._fabric.transfer(wire_ns, self._demand(moved, wire_ns, axis, group))
        if meeting is not None:
            meeting.succeed()

    def _demand(self, moved: Transfer, wire_ns: int, axis: int, group: int) -> Demand:
        key = (moved, axis, group)
        if key not in self._demands:
            members = [c for c, g in enumerate(self._group_of[axis]) if g == group]
            capacity = self._program.capacity
            self._demands[key] = tuple(
                ((link, c), min(1.0, nbytes / (capacity[link] * wire_ns / NS_PER_S)))
                for link, nbytes in moved.loads
                for c in members
            )
        return self._demands[key]


def _rows(durations: list[Int | int], n_classes: int) -> list[list[int]]:
    """Durations of every op, one row a class."""
    if all(isinstance(d, int) for d in durations):
        return [[int(d) for d in durations]] * n_classes
    table = np.empty((len(durations), n_classes), dtype=np.int64)
    for i, d in enumerate(durations):
        table[i] = d
    rows: list[list[int]] = table.T.tolist()
    return rows


class _Rendezvous(simpy.Event):
    """The end of a collective for all its members; with a ring, `ends` are the end of each class."""

    def __init__(self, env: simpy.Environment, size: int) -> None:
        super().__init__(env)
        self.missing = size
        self.ends: list[float] = []

    def succeed_after(self, delay: int) -> None:
        """Succeed when `delay` ns have passed."""
        self._ok = True
        self._value = None
        self.env.schedule(self, delay=delay)
