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
_NEVER = -1


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
        n_ops, classes = len(program.ops), range(folded.n_classes)
        self._env = env
        self._program = program
        self._fluid = fluid
        self._fabric = Fabric(env)
        self._durations = _rows(durations, folded.n_classes)
        self._group_of = [group.tolist() for group in folded.group_of]
        self._size = [np.bincount(group).tolist() for group in folded.group_of]
        self._issued, self._ready, self._started, self._ended = (
            [[_NEVER] * n_ops for _ in classes] for _ in range(4)
        )
        self._waiting: list[dict[int, simpy.Event]] = [{} for _ in classes]
        self._meetings: dict[tuple[int, int], _Rendezvous] = {}
        self._demands: dict[tuple[Transfer, int, int], Demand] = {}

    def host(self, c: int) -> Process:
        """The host thread of a class: issues in order, and waits where an op blocks it.

        Up to the next op that blocks, issue times are sums of costs: they need no events.
        """
        waiting, ended = self._waiting[c], self._ended[c]
        now = 0
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
        alone = [not self._fluid and self._members(axis, c) == 1 for axis in range(len(self._size))]
        for i in ops:
            op = self._program.ops[i]
            if ready[i] < 0:
                yield self._until(waiting, ~i)
            if ready[i] > env.now:
                yield env.timeout(ready[i] - env.now)
            for before in op.after:
                if ended[before] < 0:
                    yield self._until(waiting, before)
            started[i] = int(env.now)
            if op.axis is not None and not alone[op.axis]:
                yield from self._meet(i, c, op.axis)
            elif durations[i]:
                yield env.timeout(durations[i])
            ended[i] = int(env.now)
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

    def _members(self, axis: int, c: int) -> int:
        """How many classes meet in the group of `c`."""
        size: int = self._size[axis][self._group_of[axis][c]]
        return size

    def _meet(self, i: int, c: int, axis: int) -> Process:
        """Arrive at a collective and leave it; the last to arrive moves the bytes for all."""
        group, size = self._group_of[axis][c], self._members(axis, c)
        if size == 1:
            yield from self._transfer(i, c, axis, group)
            return
        meeting = self._meetings.setdefault((i, group), _Rendezvous(self._env, size))
        ring = self._program.ops[i].ring
        if not meeting.arrive():
            yield meeting
        elif ring is not None:
            starts = np.asarray([started[i] for started in self._started], dtype=np.int64)
            meeting.leave(ring_ends(starts, ring).tolist())
        else:
            yield from self._transfer(i, c, axis, group)
            meeting.succeed()
        if ring is not None:
            yield self._env.timeout(meeting.ends[c] - int(self._env.now))

    def _transfer(self, i: int, c: int, axis: int, group: int) -> Process:
        moved = self._program.ops[i].transfer
        if not self._fluid or moved is None or not moved.loads:
            yield self._env.timeout(self._durations[c][i])
            return
        wire_ns = self._durations[c][i] - moved.latency_ns
        if moved.latency_ns:
            yield self._env.timeout(moved.latency_ns)
        if wire_ns > 0:
            yield self._fabric.transfer(wire_ns, self._demand(moved, wire_ns, axis, group))

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
    """The end of a collective: whoever arrives waits for it; the last one sets it off."""

    def __init__(self, env: simpy.Environment, size: int) -> None:
        super().__init__(env)
        self._missing = size
        self.ends: list[int] = []

    def arrive(self) -> bool:
        """Count a member in; True for the last one."""
        self._missing -= 1
        return self._missing == 0

    def leave(self, ends: list[int]) -> None:
        """Let every member go at its own end."""
        self.ends = ends
        self.succeed()
