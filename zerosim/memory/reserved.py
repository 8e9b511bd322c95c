"""What the caching allocator reserves for a plan, op by op, on one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from zerosim.kinds import Reuse
from zerosim.memory.allocator import Block, CachingAllocator
from zerosim.memory.held import THROUGHOUT
from zerosim.plan import Plan

Moments = tuple[Sequence[int], Sequence[int]]
"""When each op is issued, and when it ends."""
_Clock = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reserved:
    """`changes`: (op, bytes more or less), -1 for what is held throughout. `peak_bytes`: the most.

    `n_retries`: how often the device was full, so that free segments were given back.
    """

    changes: tuple[tuple[int, int], ...]
    peak_bytes: int
    n_retries: int


def reserved(
    plan: Plan,
    rank: int = 0,
    *,
    moments: Moments | None = None,
    limit_bytes: int | None = None,
) -> Reserved:
    """What is reserved for `rank`, given what the plan says of memory that crosses streams (`reuse`).

    `moments` tell what has ended when an op is issued. Without them it is as if no op ended before
    the plan or the host must wait for it, so that more may be reserved.
    """
    order = _ordered(plan)
    allocator = CachingAllocator(limit_bytes)
    live: dict[str, Block] = {}
    levels = [0]
    for allocation in plan.persistent:
        if nbytes := allocation.at(rank):
            allocator.take(nbytes, "compute", lambda _: True)
    levels.append(allocator.reserved_bytes)
    for op in plan.ops:
        passed = _passed(plan, order, op.id, moments)
        for allocation in op.allocates:
            if nbytes := allocation.at(rank):
                live[allocation.key] = allocator.take(nbytes, op.stream, passed)
        levels.append(allocator.reserved_bytes)
        for block in (live.pop(key) for key in op.frees if key in live):
            if block.stream == op.stream or plan.reuse is Reuse.DROPPED:
                allocator.drop(block)
            else:
                allocator.drop_after(block, op.id)
    changes = [later - earlier for earlier, later in pairwise(levels)]
    return Reserved(
        changes=tuple((op, change) for op, change in enumerate(changes, THROUGHOUT) if change),
        peak_bytes=max(levels),
        n_retries=allocator.n_retries,
    )


@dataclass(frozen=True, slots=True)
class _Order:
    """Of each op: its stream, how many ops of each stream must be over when it is, and when issued."""

    streams: list[int]
    clocks: list[_Clock]
    hosts: list[_Clock]

    def over(self, op: int, clock: _Clock) -> bool:
        """Whether `op` is among those that must be over at `clock`."""
        stream = self.streams[op]
        return clock[stream] >= self.clocks[op][stream]


def _ordered(plan: Plan) -> _Order:
    """Follow streams, communicators, `after` and the host's own waiting through the plan."""
    streams = {name: i for i, name in enumerate(dict.fromkeys(op.stream for op in plan.ops))}
    order = _Order([streams[op.stream] for op in plan.ops], [], [])
    host: _Clock = (0,) * len(streams)
    last: dict[tuple[str, str | None], _Clock] = {}
    for op in plan.ops:
        queues = ("stream", op.stream), ("communicator", op.communicator)
        before = [host, host, *(last[queue] for queue in queues if queue in last)]
        before += [order.clocks[earlier] for earlier in op.after]
        clock = list(map(max, *before))
        clock[streams[op.stream]] += 1
        order.clocks.append(tuple(clock))
        order.hosts.append(host)
        last[queues[0]] = order.clocks[-1]
        if op.communicator is not None:
            last[queues[1]] = order.clocks[-1]
        if op.blocks:
            host = tuple(map(max, host, clock))
    return order


def _passed(plan: Plan, order: _Order, now: int, moments: Moments | None) -> Callable[[int], bool]:
    clock = order.hosts[now] if plan.reuse is Reuse.RECORDED else order.clocks[now]

    def passed(op: int) -> bool:
        if order.over(op, clock):
            return True
        return moments is not None and moments[1][op] <= moments[0][now]

    return passed
