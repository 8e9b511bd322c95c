"""What the interfaces of a lab counted while ranks talked, as the kernel counts it.

# Note [Bytes and headers]
An interface counts whole packets: 14 bytes of Ethernet, 20 of IP and 32 of TCP (12 of them time stamps)
beside what the program sent. So what a program moved is bytes - 66 · packets, acknowledgements, which
are empty packets, included. A full packet of 1514 bytes carries 1448.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zerosim_runtime.lab.links import UPLINK, Lab
from zerosim_runtime.lab.namespaces import Namespace

HEADER_BYTES: Final = 66
_PERIOD_S: Final = 0.02
_LOOPBACK: Final = "lo"
_RECEIVED: Final = 0
_SENT: Final = 8


@dataclass(frozen=True, slots=True)
class Count:
    """Packets and their bytes, headers included, since the lab was made."""

    nbytes: int
    packets: int

    @property
    def payload(self) -> int:
        """Bytes without headers. See Note [Bytes and headers]."""
        return self.nbytes - HEADER_BYTES * self.packets

    def since(self, before: Count) -> Count:
        """What came after `before`."""
        return Count(self.nbytes - before.nbytes, self.packets - before.packets)


@dataclass(frozen=True, slots=True)
class Counts:
    """A node's counters: what it sent and received by its uplink, and what stayed inside."""

    sent: Count
    received: Count
    inside: Count

    def since(self, before: Counts) -> Counts:
        """What came after `before`."""
        return Counts(
            self.sent.since(before.sent),
            self.received.since(before.received),
            self.inside.since(before.inside),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of all nodes, between two moments of the clock (perf_counter nanoseconds)."""

    time_ns: int
    counts: tuple[Counts, ...]


@dataclass(slots=True)
class Counter:
    """A thread that reads the counters of a lab, 50 times a second."""

    nodes: Sequence[Namespace]
    readings: list[Reading] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        """Read them once."""
        counts = tuple(read_counts(node) for node in self.nodes)
        self.readings.append(Reading(time.perf_counter_ns(), counts))

    def run(self) -> None:
        """Read them until told to stop."""
        while not self.stop.wait(_PERIOD_S):
            self.read()


@contextmanager
def counting(lab: Lab) -> Iterator[Counter]:
    """Read the counters of a lab as long as the block runs."""
    counter = Counter(lab.nodes)
    counter.read()
    thread = threading.Thread(target=counter.run, daemon=True)
    thread.start()
    try:
        yield counter
    finally:
        counter.stop.set()
        thread.join()


def read_counts(node: Namespace) -> Counts:
    """The counters of a node as they stand now."""
    lines = Path(f"/proc/{node.pid}/net/dev").read_text(encoding="ascii").splitlines()
    numbers = {
        name.strip(): [int(word) for word in rest.split()]
        for name, _, rest in (line.partition(":") for line in lines[2:])
    }
    uplink, loopback = numbers[UPLINK], numbers[_LOOPBACK]
    return Counts(
        Count(uplink[_SENT], uplink[_SENT + 1]),
        Count(uplink[_RECEIVED], uplink[_RECEIVED + 1]),
        Count(loopback[_SENT], loopback[_SENT + 1]),
    )


def between(readings: Sequence[Reading], start_ns: int, end_ns: int) -> tuple[Counts, ...]:
    """What each node counted from the last reading before `start_ns` to the second after `end_ns`.

    The second, since what was sent last may still be on its way when the first is taken.
    """
    before = [r for r in readings if r.time_ns <= start_ns] or readings[:1]
    after = [r for r in readings if r.time_ns >= end_ns][:2] or readings[-1:]
    pairs = zip(before[-1].counts, after[-1].counts, strict=True)
    return tuple(last.since(first) for first, last in pairs)
