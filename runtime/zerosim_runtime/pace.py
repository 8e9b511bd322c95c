"""Paced links: how long bytes would take on a link of a given rate, waited out by whoever moved them.

# Note [Paced links]
A paced communicator really runs its collective, over whatever link there is, and then waits until the
moment at which the bytes of a ring would have passed a link of `rate`: the last rank's arrival, the
latency, the bytes. Ranks first agree on the moment the last of them issued (a sum of one number), so
that all wait for the same. Communicators that are given one `Pace` share its rate as flows share a
network card: each gets an equal part of it while they overlap.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from zerosim.collectives import SCATTERS
from zerosim.errors import InputError, UnknownNameError
from zerosim.units import read_delay, read_rate

BACKENDS: Final = ("auto", "gloo", "nccl")
_FORM: Final = "paced:RATE or paced:RATE,LATENCY, e.g. paced:400Mbit or paced:400Mbit,50us"
_NS: Final = 1e9
_TINY: Final = 0.5
"""Bytes: less than this is rounding."""


@dataclass(slots=True, eq=False)
class Flow:
    """What is under way: bytes left, as of the pace's last look."""

    left: float
    end_ns: int = 0


@dataclass(slots=True, eq=False)
class Pace:
    """A link of `rate_bytes_s` a rank; each collective takes `latency_s` before its bytes flow.

    With several `ranks_per_node`, only what leaves a node is counted, once for all of its ranks. See
    Note [Paced links].
    """

    rate_bytes_s: float
    latency_s: float = 0.0
    ranks_per_node: int = 1
    flows: list[Flow] = field(default_factory=list)
    noted_ns: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def begin(self, ready_ns: int, nbytes: int) -> Flow:
        """A transfer of `nbytes` begins; all ranks were there at `ready_ns`, which is past."""
        with self.changed:
            now = time.perf_counter_ns()
            self._settle(now)
            flow = Flow(nbytes + self.latency_s * self.rate_bytes_s)
            # What it would have moved since the last rank came, had it been known at once.
            head_start = (now - ready_ns) / _NS * self.rate_bytes_s / (len(self.flows) + 1)
            flow.left -= head_start
            self.flows.append(flow)
            self.changed.notify_all()
            return flow

    def finish(self, flow: Flow) -> int:
        """Wait until a transfer would be over; returns when that was, in perf_counter ns."""
        with self.changed:
            while True:
                self._settle(time.perf_counter_ns())
                if flow not in self.flows:
                    return flow.end_ns
                left_s = min(f.left for f in self.flows) * len(self.flows) / self.rate_bytes_s
                self.changed.wait(left_s)

    def _settle(self, now: int) -> None:
        """Move all flows on to `now`, each at its part of the rate; those that are over leave."""
        while self.flows:
            part = self.rate_bytes_s / len(self.flows) / _NS
            first = min(self.flows, key=lambda flow: flow.left)
            end = self.noted_ns + max(0, round(first.left / part))
            until = min(now, end)
            for flow in self.flows:
                flow.left -= (until - self.noted_ns) * part
            self.noted_ns = until
            if first.left > _TINY and until == now:
                break
            first.end_ns = until
            self.flows.remove(first)
            self.changed.notify_all()
        self.noted_ns = now


def parse_backend(text: str) -> tuple[str, Pace | None]:
    """`auto`, `gloo`, `nccl`, or `paced:400Mbit,50us`: the backend, and the pace of its links.

    Raises UnknownNameError for another backend, InputError for a pace that cannot be read.
    """
    name, colon, rest = text.partition(":")
    if name != "paced":
        if text not in BACKENDS:
            raise UnknownNameError("backend", text, (*BACKENDS, "paced:400Mbit"))
        return text, None
    rate, _, latency = rest.partition(",")
    if not colon or not rate:
        raise InputError(f"backend '{text}' says no rate: write {_FORM}")
    return "gloo", Pace(read_rate(rate), read_delay(latency, "latency") if latency else 0.0)


def check_scatter(text: str) -> str:
    """A way to reduce-scatter. Raises UnknownNameError."""
    if text not in SCATTERS:
        raise UnknownNameError("scatter", text, SCATTERS)
    return text
