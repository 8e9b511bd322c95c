"""Links shared by transfers that run at once: max-min fair, recomputed when one starts or ends.

# Note [Transfers beside computing]
Where the CPU of a rank both computes and moves bytes, transfers of that rank are slower while it
computes. That is one more link, of the rank's CPU, which is full at the speed that is left; there is
room for any speed while the rank does not compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import simpy

Demand = tuple[tuple[Any, float], ...]
"""Per link, the share of its capacity that a transfer would use with all its links to itself."""
_TINY: Final = 1e-6
"""Ns: less than this is rounding, not work."""
Told = Callable[[float], None]
"""Is told the speed of a transfer whenever it changes."""


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


@dataclass(slots=True, eq=False)
class _Flow:
    """A transfer under way: ns of work left at full speed, its speed, and when that was noted."""

    demand: int
    left: float
    speed: float
    noted: int
    done: simpy.Event
    told: Told | None


class Fabric:
    """The links. `transfer` gives an event that succeeds when the last byte is over."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._flows: list[_Flow] = []
        self._alarm: simpy.Event | None = None
        self._demands: dict[Demand, int] = {}
        self._solved: dict[tuple[tuple[int, ...], frozenset[Any]], tuple[float, ...]] = {}
        self._idle: set[Any] = set()

    def transfer(self, wire_ns: int, demand: Demand, told: Told | None = None) -> simpy.Event:
        """Start a transfer that takes `wire_ns` (above 0) alone; `told` hears of its speed."""
        self._settle()
        number = self._demands.setdefault(demand, len(self._demands))
        flow = _Flow(number, float(wire_ns), 0.0, int(self._env.now), self._env.event(), told)
        self._flows.append(flow)
        self._share()
        return flow.done

    def idle(self, links: Iterable[Any]) -> None:
        """From now on these links hold nobody up."""
        self._idle.update(links)
        self._again()

    def busy(self, link: Any) -> None:  # noqa: ANN401 - whatever names a link
        """From now on this link holds up those that load it."""
        self._idle.discard(link)
        self._again()

    def _again(self) -> None:
        if self._flows:
            self._settle()
            self._share()

    def _settle(self) -> None:
        now = int(self._env.now)
        for flow in self._flows:
            flow.left -= (now - flow.noted) * flow.speed
            flow.noted = now

    def _share(self) -> None:
        """Give every flow its speed, and ring when the first of them is over."""
        key = tuple([flow.demand for flow in self._flows]), frozenset(self._idle)
        speeds = self._solved.get(key)
        if speeds is None:
            speeds = self._solved[key] = self._solve(*key)
        wait = math.inf
        for flow, speed in zip(self._flows, speeds, strict=True):
            if flow.told is not None and flow.speed != speed:
                flow.told(speed)
            flow.speed = speed
            wait = min(wait, flow.left / speed)
        self._alarm = self._env.timeout(max(0, math.ceil(wait - _TINY)))
        self._alarm.callbacks.append(self._ring)

    def _solve(self, flows: tuple[int, ...], idle: frozenset[Any]) -> tuple[float, ...]:
        demands = [tuple(d for d in demand if d[0] not in idle) for demand in self._demands]
        speeds = fair_speeds({i: demands[number] for i, number in enumerate(flows)})
        return tuple(speeds[i] for i in range(len(flows)))

    def _ring(self, alarm: simpy.Event) -> None:
        if alarm is not self._alarm:
            return  # a transfer started or ended meanwhile: a newer alarm is set
        self._settle()
        over = [flow for flow in self._flows if flow.left <= flow.speed * _TINY + 1e-9]
        self._flows = [flow for flow in self._flows if flow not in over]
        for flow in over:
            flow.done.succeed()
        if self._flows:
            self._share()
