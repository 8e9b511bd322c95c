"""The reference: a SimPy process per stream and rank class, one rendezvous event per collective."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import simpy

from zerosim.collectives import Transfer
from zerosim.engine.contention import Kernels, Taken, slowed
from zerosim.engine.fabric import Demand, Fabric, Told
from zerosim.engine.folding import Folded
from zerosim.engine.maxplus import ring_ends
from zerosim.engine.processor import Processor
from zerosim.engine.program import Int, Program, Timed, Times
from zerosim.engine.rendezvous import Rendezvous
from zerosim.errors import PlanError
from zerosim.units import NS_PER_S

Process = Generator[simpy.Event, Any, None]
Shares = Mapping[str, Sequence[float]]
NONE_SLOW: Final[Shares] = {}


def run(
    program: Program,
    folded: Folded,
    durations: list[Int | int],
    *,
    fluid: bool,
    shares: Shares = NONE_SLOW,
) -> Times:
    """Times of every op and class. With `fluid`, transfers that run at once share their links.

    `shares`: of each link that is slow somewhere, the share of its rate that each class has. Where
    the program says what kernels and collectives take, kernels are slower beside collectives.
    Raises PlanError for an op that waits for itself.
    """
    env = simpy.Environment(initial_time=0)
    state = _Run(env, program, folded, durations, shares, fluid=fluid)
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
        shares: Shares,
        *,
        fluid: bool,
    ) -> None:
        self._env = env
        self._program = program
        self._fabric = Fabric(env)
        self._shares = shares
        self._fluid = fluid
        self._moves = [_moves(program, op, fluid=fluid) for op in program.ops]
        self._speeds: dict[tuple[Kernels, Taken], int] = {}
        self._processors = [Processor(env, self._speed) for _ in range(folded.n_classes)]
        self._durations = _rows(durations, folded.n_classes)
        self._group_of = [group.tolist() for group in folded.group_of]
        self._size = [np.bincount(group).tolist() for group in folded.group_of]
        self._issued, self._ready, self._started, self._ended = (
            _never(folded.n_classes, len(program.ops)) for _ in range(4)
        )
        self._waiting: list[dict[int, simpy.Event]] = [{} for _ in range(folded.n_classes)]
        self._meetings: dict[tuple[int, int], Rendezvous] = {}
        self._met: dict[tuple[int, int], tuple[int, ...]] = {}
        self._demands: dict[tuple[Transfer, int, tuple[int, ...]], Demand] = {}
        self._computing = [0] * folded.n_classes
        self._fabric.idle(map(_cpu, range(folded.n_classes)))

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
            if op.axis is not None:
                yield from self._together(i, c, op.axis)
            elif durations[i]:
                if self._program.left:
                    self._compute(c, 1)
                yield self._alone(op, c, durations[i])
                if self._program.left:
                    self._compute(c, -1)
            ended[i] = env.now
            if i in waiting:
                waiting.pop(i).succeed()

    def _alone(self, op: Timed, c: int, duration_ns: int) -> simpy.Event:
        """The end of an op that meets nobody."""
        if op.kernels is None:
            return self._env.timeout(duration_ns)
        return self._processors[c].work(op.kernels, duration_ns)

    def _compute(self, c: int, change: int) -> None:
        """One op more, or less, computes on a class. See Note [Transfers beside computing]."""
        self._computing[c] += change
        if self._computing[c]:
            self._fabric.busy(_cpu(c))
        else:
            self._fabric.idle([_cpu(c)])

    def _together(self, i: int, c: int, axis: int) -> Process:
        """A collective on one class, from its arrival to its end."""
        op, taken = self._program.ops[i], self._program.ops[i].taken
        if taken is not None:
            # Each rank of a message-level ring moves from its own arrival on.
            self._processors[c].beside(i, taken.waiting if op.ring is None else taken)
        if self._size[axis][self._group_of[axis][c]] > 1:
            meeting = self._arrive(i, c, axis)
            yield meeting
            if meeting.ends:
                yield self._env.timeout(meeting.ends[c] - self._env.now)
        elif self._moves[i]:
            yield from self._move(i, c, axis)
        elif self._durations[c][i]:
            yield self._env.timeout(self._durations[c][i])
        if taken is not None:
            self._processors[c].over(i)

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

    def _arrive(self, i: int, c: int, axis: int) -> Rendezvous:
        """Arrive at a collective; the last to arrive sets off its end, for all who wait for it."""
        group = self._group_of[axis][c]
        meeting = self._meetings.get((i, group))
        if meeting is None:
            meeting = Rendezvous(self._env, self._size[axis][group])
            self._meetings[i, group] = meeting
        meeting.missing -= 1
        if meeting.missing:
            return meeting
        del self._meetings[i, group]
        ring = self._program.ops[i].ring
        if ring is not None:
            starts = np.asarray([started[i] for started in self._started], dtype=np.int64)
            longer = self._durations[c][i] - self._program.ops[i].duration_ns
            now = int(self._env.now)
            meeting.ends = np.maximum(ring_ends(starts, ring) + longer, now).tolist()
            meeting.succeed()
        elif self._moves[i]:
            self._env.process(self._move(i, c, axis, meeting))
        else:
            meeting.succeed_after(self._durations[c][i])
        return meeting

    def _move(self, i: int, c: int, axis: int, meeting: Rendezvous | None = None) -> Process:
        """Move the bytes of a collective over links that others may use, too."""
        op = self._program.ops[i]
        moved = op.transfer or Transfer(0, ())
        latency_ns = min(moved.latency_ns, self._durations[c][i])
        wire_ns = self._durations[c][i] - latency_ns
        if latency_ns:
            yield self._env.timeout(latency_ns)
        if wire_ns > 0:
            members = self._members(axis, self._group_of[axis][c])
            demand = self._demand(moved, wire_ns, members)
            yield self._fabric.transfer(wire_ns, demand, self._told(i, members))
        if meeting is not None:
            meeting.succeed()

    def _members(self, axis: int, group: int) -> tuple[int, ...]:
        """The classes that meet in a group."""
        key = (axis, group)
        if key not in self._met:
            found = [c for c, g in enumerate(self._group_of[axis]) if g == group]
            self._met[key] = tuple(found)
        return self._met[key]

    def _demand(self, moved: Transfer, wire_ns: int, members: tuple[int, ...]) -> Demand:
        key = (moved, wire_ns, members)
        if key not in self._demands:
            links = tuple(
                ((link, c), min(1.0, nbytes / (self._rate(link, c) * wire_ns / NS_PER_S)))
                for link, nbytes in moved.loads
                for c in members
            )
            left = self._program.keeps(moved)
            cpus = tuple((_cpu(c), 1 / left) for c in members) if left < 1 else ()
            self._demands[key] = (*(links if self._fluid else ()), *cpus)
        return self._demands[key]

    def _rate(self, link: str, c: int) -> float:
        """Bytes a second of a link of one class."""
        capacity = self._program.capacity[link]
        return capacity * float(self._shares[link][c]) if link in self._shares else capacity

    def _speed(self, kernels: Kernels, taken: Taken) -> int:
        """The speed of kernels from which so much is taken; few differ, so each is found once."""
        key = (kernels, taken)
        if key not in self._speeds:
            program = self._program
            self._speeds[key] = slowed(kernels, taken, program.sms, program.contention.tax)
        return self._speeds[key]

    def _told(self, i: int, members: tuple[int, ...]) -> Told | None:
        """Tells the processors of a collective's members how much memory bandwidth it takes."""
        op, taken = self._program.ops[i], self._program.ops[i].taken
        if taken is None or not taken.bandwidth or op.ring is not None:
            return None

        def told(speed: float) -> None:
            for c in members:
                self._processors[c].beside(i, taken.moving(speed))

        return told


def _moves(program: Program, op: Timed, *, fluid: bool) -> bool:
    """Whether others have to know while a collective's bytes move, or it of them."""
    if op.transfer is None or op.ring is not None:
        return False
    hurts = op.taken is not None and op.taken.bandwidth > 0
    return (fluid and bool(op.transfer.loads)) or hurts or program.keeps(op.transfer) < 1


def _cpu(c: int) -> tuple[None, int]:
    """What a fabric calls the CPU of a class: no link has that name."""
    return None, c


def _rows(durations: list[Int | int], n_classes: int) -> list[list[int]]:
    """Durations of every op, one row a class."""
    if all(isinstance(d, int) for d in durations):
        return [[int(d) for d in durations]] * n_classes
    table = np.empty((len(durations), n_classes), dtype=np.int64)
    for i, d in enumerate(durations):
        table[i] = d
    rows: list[list[int]] = table.T.tolist()
    return rows
