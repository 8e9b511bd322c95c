"""Where the members of a collective meet: the end that all of them wait for."""

from __future__ import annotations

import simpy


class Rendezvous(simpy.Event):
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
