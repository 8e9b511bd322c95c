"""The kernels that run on one rank: work whose speed changes as collectives start, move and end beside it."""

from __future__ import annotations

import math
from typing import Any

import simpy

from zerosim.engine.contention import FULL_SPEED, Kernels, Taken, slowed


class Kernel(simpy.Event):
    """Kernels under way: what is left in ns·FULL_SPEED, their speed, and when that was noted."""

    def __init__(self, env: simpy.Environment, kernels: Kernels, duration_ns: int) -> None:
        super().__init__(env)
        self.kernels = kernels
        self.left = duration_ns * FULL_SPEED
        self.speed = FULL_SPEED
        self.noted = int(env.now)
        self.alarm: simpy.Event | None = None


class Processor:
    """A rank's device. See Note [Kernels beside collectives]."""

    def __init__(
        self,
        env: simpy.Environment,
        sms: int,
        tax: float,
        speeds: dict[tuple[Kernels, Taken], int],
    ) -> None:
        """`speeds`: those found so far, which the processors of a run share."""
        self._env = env
        self._sms = sms
        self._taxed = math.ceil(FULL_SPEED * (1 - tax))
        self._speeds = speeds
        self._under_way: list[Kernel] = []
        self._beside: dict[int, Taken] = {}

    def work(self, kernels: Kernels, duration_ns: int) -> Kernel:
        """Start kernels that take so long alone (above 0); the event succeeds at their end."""
        kernel = Kernel(self._env, kernels, duration_ns)
        kernel.speed = self._speed(kernels, self._together())
        self._under_way.append(kernel)
        self._arm(kernel)
        return kernel

    def beside(self, number: int, taken: Taken) -> None:
        """Collective `number` takes so much from now on."""
        if self._beside.get(number) != taken:
            self._beside[number] = taken
            self._change()

    def over(self, number: int) -> None:
        """Collective `number` has ended and takes nothing."""
        del self._beside[number]
        self._change()

    def _change(self) -> None:
        if not self._under_way:
            return
        now, together = int(self._env.now), self._together()
        for kernel in self._under_way:
            speed = self._speed(kernel.kernels, together)
            if speed != kernel.speed:
                kernel.left -= (now - kernel.noted) * kernel.speed
                kernel.noted, kernel.speed = now, speed
                self._arm(kernel)

    def _together(self) -> Taken:
        """What all collectives take, added up in the order of the program whoever came first."""
        found = [self._beside[number] for number in sorted(self._beside)]
        return Taken(sum(t.sms for t in found), sum(t.bandwidth for t in found))

    def _speed(self, kernels: Kernels, together: Taken) -> int:
        if not self._beside:
            return FULL_SPEED
        if self._taxed < FULL_SPEED:
            return self._taxed
        key = (kernels, together)
        if key not in self._speeds:
            self._speeds[key] = slowed(kernels, self._sms, together)
        return self._speeds[key]

    def _arm(self, kernel: Kernel) -> None:
        """Ring when the kernels are over at their present speed; an earlier alarm is void."""
        alarm = self._env.timeout(max(0, -(-kernel.left // kernel.speed)))
        kernel.alarm = alarm

        def ring(_: Any) -> None:  # noqa: ANN401 - SimPy hands in the alarm itself
            if kernel.alarm is alarm:
                self._under_way.remove(kernel)
                kernel.succeed()

        alarm.callbacks.append(ring)
