"""In which order units are called: what the last forward did says what to gather ahead in this one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Calls:
    """The units called by the last whole forward, and by the one under way.

    `place` is where in the last forward's order this one is: behind the call it has just repeated. In
    the first forward nothing is foreseen.
    """

    last: tuple[str, ...] = ()
    now: list[str] = field(default_factory=list)
    place: int = 0
    under_way: bool = False

    def begin(self) -> None:
        """A forward begins; one that never ended is forgotten."""
        self.now, self.place, self.under_way = [], 0, True

    def call(self, unit: str) -> None:
        """A unit is called; what the last forward called before it is left out in this one."""
        self.now.append(unit)
        if unit in self.last[self.place :]:
            self.place = self.last.index(unit, self.place) + 1

    def ahead(self, n_units: int) -> tuple[str, ...]:
        """The next calls to expect."""
        return self.last[self.place : self.place + n_units]

    def again(self, unit: str) -> bool:
        """Whether this unit is expected to be called once more."""
        return unit in self.last[self.place :]

    def closes(self, unit: str) -> bool:
        """Whether the call of this unit, just made, was the last one to expect."""
        return self.place == len(self.last) > 0 and self.last[-1] == unit

    def end(self) -> None:
        """The forward has ended."""
        self.last, self.under_way = tuple(self.now), False
