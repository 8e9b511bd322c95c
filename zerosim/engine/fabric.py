"""Links shared by transfers that run at once: max-min fair, recomputed when one starts or ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import simpy

Demand = tuple[tuple[Any, float], ...]
"""Per link, the share of its capacity that a transfer would use with all its links to itself."""


def fair_speeds(demands: Mapping[int, Demand]) -> dict[int, float]:
    """Speed of each transfer, 1.0 = as if alone: max-min fair on every link.

    Progressive filling: all speeds rise together until a link is full; its transfers keep theirs,
    the others rise on. `demands` maps a transfer to its demand.
    """
    speed: dict[int, float] = {}
    room = {link: 1.0 for demand in demands.values() for link, _ in demand}
    rising = dict(demands)
    while rising:
        load: dict[Any, float] = {}
        for demand in rising.values():
            for link, share in demand:
                load[link] = load.get(link, 0.0) + share
        level = min((room[link] / load[link] for link in load if load[link] > 0), default=1.0)
        full = {link for link in load if load[link] > 0 and room[link] / load[link] <= level}
        level = min(level, 1.0)
        stopped = [
            flow
            for flow, demand in rising.items()
            if level >= 1.0 or any(link in full and share > 0 for link, share in demand)
        ]
        for flow in stopped:
            speed[flow] = level
            for link, share in rising.pop(flow):
                room[link] = max(0.0, room[link] - share * level)
    return speed


@dataclass(slots=True)
class _Flow:
    """A transfer under way: ns of work left at full speed, its speed, and when that was noted."""

    demand: Demand
    left: float
    speed: float
    noted: int
    done: simpy.Event


class Fabric:
    """The links. `transfer` gives an event that succeeds when the last byte is over."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._flows: dict[int, _Flow] = {}
        self._next = 0
        self._version = 0
        self._solved: dict[tuple[Demand, ...], tuple[float, ...]] = {}

    def transfer(self, wire_ns: int, demand: Demand) -> simpy.Event:
        """Start a transfer that takes `wire_ns` alone."""
        done = self._env.event()
        if wire_ns == 0:
            return done.succeed()
        self._settle()
        self._flows[self._next] = _Flow(demand, float(wire_ns), 1.0, self._now, done)
        self._next += 1
        self._share()
        return done

    @property
    def _now(self) -> int:
        return int(self._env.now)

    def _settle(self) -> None:
        for flow in self._flows.values():
            flow.left -= (self._now - flow.noted) * flow.speed
            flow.noted = self._now

    def _share(self) -> None:
        key = tuple(flow.demand for flow in self._flows.values())
        if key not in self._solved:
            speeds = fair_speeds(dict(enumerate(key)))
            self._solved[key] = tuple(speeds[i] for i in range(len(key)))
        for flow, speed in zip(self._flows.values(), self._solved[key], strict=True):
            flow.speed = speed
        self._version += 1
        if self._flows:
            self._env.process(self._wake(self._version))

    def _wake(self, version: int) -> Any:  # noqa: ANN401 - simpy's generator type
        wait = min(math.ceil(f.left / f.speed - 1e-6) for f in self._flows.values())
        yield self._env.timeout(max(wait, 0))
        if version != self._version:
            return  # a transfer started or ended meanwhile: a newer wake-up stands
        self._settle()
        for number in [k for k, f in self._flows.items() if f.left <= f.speed * 1e-6 + 1e-9]:
            self._flows.pop(number).done.succeed()
        self._share()
