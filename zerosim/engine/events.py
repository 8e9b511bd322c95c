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
    """Times of every op and class. With `fluid`, transfers that run at once share their links."""
    env = simpy.Environment(initial_time=0)
    state = _Run(env, program, folded, durations, fluid=fluid)
    blocking = any(op.blocks for op in program.ops)
    streams = _by_stream(program)
    for c in range(folded.n_classes):
        if blocking:
            env.process(state.host(c))
        else:
            state.issue_all(c)
        for ops in streams:
            env.process(state.stream(c, ops))
    env.run()
    if (state.ended < 0).any():
        stuck = int(np.argmax((state.ended < 0).any(axis=1)))
        raise PlanError(f"op {stuck} never ran: what it waits for waits for it")
    return Times(state.issued, state.started, state.ended)


def _by_stream(program: Program) -> list[list[int]]:
    streams: dict[int, list[int]] = {}
    for i, op in enumerate(program.ops):
        streams.setdefault(op.stream, []).append(i)
    return list(streams.values())


class _Run:
    """One simulation: what has been issued, begun and ended, and who waits for it."""

    def __init__(
        self,
        env: simpy.Environment,
        program: Program,
        folded: Folded,
        durations: list[Int | int],
        *,
        fluid: bool,
    ) -> None:
        shape = (len(program.ops), folded.n_classes)
        self.env = env
        self.program = program
        self.folded = folded
        self.issued, self.started, self.ended = (
            np.full(shape, -1, dtype=np.int64) for _ in range(3)
        )
        self._durations = durations
        self._fabric = Fabric(env) if fluid else None
        self._ready: list[list[int]] = [[-1] * shape[0] for _ in range(shape[1])]
        self._end: list[list[int]] = [[-1] * shape[0] for _ in range(shape[1])]
        self._waiting: dict[tuple[int, int], simpy.Event] = {}
        self._meeting: dict[tuple[int, int], _Rendezvous] = {}
        self._size = [np.bincount(group).tolist() for group in folded.group_of]

    def issue_all(self, c: int) -> None:
        """Issue times of a host that nothing blocks: sums of issue costs."""
        now = 0
        for i, op in enumerate(self.program.ops):
            self.issued[i, c] = now
            now += op.issue_ns
            self._ready[c][i] = now

    def host(self, c: int) -> Process:
        """The host thread of a class: issues in order, and waits where an op blocks it."""
        for i, op in enumerate(self.program.ops):
            self.issued[i, c] = self.env.now
            yield self.env.timeout(op.issue_ns)
            self._ready[c][i] = int(self.env.now)
            self._announce(c, ~i)
            if op.blocks and self._end[c][i] < 0:
                yield self._done(c, i)

    def stream(self, c: int, ops: list[int]) -> Process:
        """One stream of a class: its ops in order, each after what it waits for."""
        env, ready, end = self.env, self._ready[c], self._end[c]
        started, ended = self.started[:, c], self.ended[:, c]
        for i in ops:
            op = self.program.ops[i]
            if ready[i] < 0:
                yield self._done(c, ~i)
            elif ready[i] > env.now:
                yield env.timeout(ready[i] - env.now)
            for before in op.after:
                if end[before] < 0:
                    yield self._done(c, before)
            started[i] = env.now
            if op.axis is None:
                duration = self._durations[i]
                nanoseconds = duration if isinstance(duration, int) else int(duration[c])
                if nanoseconds:
                    yield env.timeout(nanoseconds)
            else:
                yield from self._meet(i, c)
            end[i] = ended[i] = env.now
            self._announce(c, i)

    def _meet(self, i: int, c: int) -> Process:
        op = self.program.ops[i]
        if op.axis is None:
            return
        group = int(self.folded.group_of[op.axis][c])
        size = self._size[op.axis][group]
        if size == 1 and self._fabric is None:
            yield self.env.timeout(op.duration_ns)
            return
        meeting = self._meeting.setdefault((i, group), _Rendezvous(self.env, size))
        ring = op.ring if size > 1 else None  # equal ranks take the ring's common time
        if meeting.arrive():
            del self._meeting[i, group]
            if ring is not None:
                ends = ring_ends(self.started[i], ring)
                meeting.leave(ends.tolist())
            else:
                self.env.process(self._transfer(i, group, meeting))
        yield meeting
        if ring is not None:
            yield self.env.timeout(meeting.ends[c] - int(self.env.now))

    def _transfer(self, i: int, group: int, meeting: _Rendezvous) -> Process:
        op = self.program.ops[i]
        moved = op.transfer or Transfer(op.duration_ns, ())
        if self._fabric is None:
            yield self.env.timeout(op.duration_ns)
        else:
            yield self.env.timeout(moved.latency_ns)
            wire_ns = op.duration_ns - moved.latency_ns
            yield self._fabric.transfer(wire_ns, self._demand(moved, wire_ns, op.axis or 0, group))
        meeting.succeed()

    def _demand(self, moved: Transfer, wire_ns: int, axis: int, group: int) -> Demand:
        members = np.flatnonzero(self.folded.group_of[axis] == group).tolist()
        full = {link: self.program.capacity[link] * wire_ns / NS_PER_S for link, _ in moved.loads}
        return tuple(
            ((link, c), min(1.0, nbytes / full[link]))
            for link, nbytes in moved.loads
            for c in members
        )

    def _done(self, c: int, i: int) -> simpy.Event:
        return self._waiting.setdefault((c, i), self.env.event())

    def _announce(self, c: int, i: int) -> None:
        if self._waiting:
            event = self._waiting.pop((c, i), None)
            if event is not None:
                event.succeed()


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
