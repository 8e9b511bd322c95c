"""Which training step, and which micro-batch of it, a program is in.

# Note [Steps]
Step 1 begins with the first forward that is trained on; a later one with the first such forward after an
optimizer has stepped. So windows tile the run, and what a program does after its optimizer (logging,
loading of data) belongs to the step that was just made. A program without modules counts its optimizer's
steps. Each forward after a backward in the same step begins a new micro-batch; they count from 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_now: Final = time.perf_counter_ns


@dataclass(slots=True)
class Steps:
    """`tell` is told of each step that is over: its number, begin and end in perf_counter nanoseconds."""

    tell: Callable[[int, int, int], None]
    step: int | None = None
    micro_batch: int | None = None
    began_ns: int = 0
    stepped: bool = False
    backed: bool = False

    def forward(self) -> bool:
        """A forward that is trained on begins; whether a step does."""
        begins = self.step is None or self.stepped
        if begins:
            self._begin()
            self.micro_batch = 0
        elif self.backed:
            self.micro_batch = (self.micro_batch or 0) + 1
        self.backed = False
        return begins

    def backward(self) -> None:
        """Autograd has come to a unit."""
        self.backed = True

    def optimizer(self) -> None:
        """An optimizer has stepped."""
        if self.step is None or (self.stepped and self.micro_batch is None):
            self._begin()
        self.stepped = True

    def close(self) -> None:
        """The run is over; its last step is one if its optimizer has stepped."""
        if self.step is not None and self.stepped:
            self.tell(self.step, self.began_ns, _now())

    def _begin(self) -> None:
        now = _now()
        if self.step is not None:
            self.tell(self.step, self.began_ns, now)
        self.step = (self.step or 0) + 1
        self.began_ns, self.stepped, self.micro_batch = now, False, None
