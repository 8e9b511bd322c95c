"""The kernels that run on one rank: work whose speed changes as collectives start, move and end beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy

from zerosim.engine.contention import FULL_SPEED, Kernels, Taken, together


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

    def __init__(self, env: simpy.Environment, speed: Callable[[Kernels, Taken], int]) -> None:
        """`speed`: that of kernels from which so much is taken, of FULL_SPEED."""
        self._env = env
        self._speed = speed
        self._under_way: list[Kernel] = []
        self._beside: dict[int, Taken] = {}

    def work(self, kernels: Kernels, duration_ns: int) -> Kernel:
        """Start kernels that take so long alone (above 0); the event succeeds at their end."""
        kernel = Kernel(self._env, kernels, duration_ns)
        kernel.speed = self._speed(kernels, together(self._beside.values()))
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
        now, taken = int(self._env.now), together(self._beside.values())
        for kernel in self._under_way:
            speed = self._speed(kernel.kernels, taken)
            if speed != kernel.speed:
                kernel.left -= (now - kernel.noted) * kernel.speed
                kernel.noted, kernel.speed = now, speed
                self._arm(kernel)

    def _arm(self, kernel: Kernel) -> None:
        """Ring when the kernels are over at their present speed; an earlier alarm is void."""
        alarm = self._env.timeout(max(0, -(-kernel.left // kernel.speed)))
        kernel.alarm = alarm

        def ring(_: Any) -> None:  # noqa: ANN401 - SimPy hands in the alarm itself
            if kernel.alarm is alarm:
                self._under_way.remove(kernel)
                kernel.succeed()

        alarm.callbacks.append(ring)
