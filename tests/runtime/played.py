"""Plays torch.cuda where there is none: a clock that the test moves, streams that write down their work."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager


class Device:
    """Plays torch.cuda: a clock in ns that only the test moves, and streams that write down their work."""

    def __init__(self) -> None:
        self.now = 0
        self.log: list[str] = []
        self.capturing = False
        self.current = Stream(self, "compute")

    def current_device(self) -> int:
        return 0

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def Event(self, *, enable_timing: bool) -> Event:  # noqa: N802 - torch's name
        assert enable_timing
        return Event(self)

    def synchronize(self, _: object) -> None:
        self.log.append("synchronize")

    def current_stream(self, _: object = None) -> Stream:
        return self.current

    @contextmanager
    def stream(self, chosen: Stream) -> Iterator[None]:
        before, self.current = self.current, chosen
        yield
        self.current = before


class Stream:
    def __init__(self, device: Device, name: str) -> None:
        self.device, self.name = device, name

    def wait_stream(self, other: Stream) -> None:
        self.device.log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event: Event) -> None:
        self.device.log.append(f"{self.name} waits for event of {event.on}")


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.at: int | None = None
        self.on = ""
        self.passed = True

    def record(self, stream: Stream | None = None) -> None:
        self.at = self.device.now
        self.on = (stream or self.device.current).name

    def query(self) -> bool:
        return self.passed

    def synchronize(self) -> None:
        self.passed = True

    def elapsed_time(self, other: Event) -> float:
        assert self.at is not None
        assert other.at is not None
        single: float = struct.unpack("f", struct.pack("f", (other.at - self.at) / 1e6))[0]
        return single
