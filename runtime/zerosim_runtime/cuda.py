"""CUDA: events as times on the host's clock, and collectives that hold up a stream instead of the host.

# Note [Events as times]
A GPU does not know the host's clock. An event that was recorded on an idle device, between two readings
of the clock, is a bridge: others lie as far behind it as CUDA says. CUDA says so in float32
milliseconds, which are good to 0.1 µs for a second; so an event that lies further off becomes the next
bridge.

# Note [Streams wait, the host does not]
A collective runs on its communicator's stream, after all that the caller's stream has been given before.
To wait for it is to let the caller's stream wait for the event behind it; the host goes on. So what it
reads and writes must outlive it: its communicator holds its tensors until that event, or until the
stream that made them waits for it. From then on the allocator may give their memory to whatever that
stream does later; so a host that runs ahead holds no more buffers than the ledger books.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

_TRIES: Final = 20
_FAR_NS: Final = 1_000_000_000
_cuda: Final[Any] = torch.cuda  # untyped


@dataclass(frozen=True, slots=True)
class Bridge:
    """An event whose time on the host's clock is known, within `error_ns`."""

    event: Any
    at_ns: int
    error_ns: int

    def time_of(self, event: Any) -> int:  # noqa: ANN401 - a CUDA event
        """When an event that has passed did so, in perf_counter nanoseconds."""
        behind_ms: float = self.event.elapsed_time(event)
        return self.at_ns + round(behind_ms * 1e6)


@dataclass(slots=True)
class Stamps:
    """Makes stamps of the current stream of a device. See Note [Events as times]."""

    bridge: Bridge

    def __call__(self) -> Stamp:
        """The moment at which the current stream has done all that it was given so far."""
        event = _cuda.Event(enable_timing=True)
        event.record()
        return Stamp(event, self.bridge, self)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment of a stream, which has a time once the stream has passed it."""

    event: Any
    bridge: Bridge
    maker: Stamps

    def read(self) -> int | None:
        """The time, None if the stream is not there yet."""
        if not self.event.query():
            return None
        at = self.bridge.time_of(self.event)
        if at - self.maker.bridge.at_ns > _FAR_NS:
            self.maker.bridge = Bridge(self.event, at, self.bridge.error_ns)
        return at


@dataclass(slots=True)
class Issued:
    """A collective on a communicator's stream: from when to when, and what it must not lose until then."""

    began: Stamp
    ended: Stamp
    tensors: tuple[torch.Tensor, ...]
    caller: Any
    """The stream that was current when it was issued."""

    def hold_up_stream(self) -> None:
        """Let the current stream wait for the end; the host goes on."""
        current = _cuda.current_stream()
        current.wait_event(self.ended.event)
        if current == self.caller:
            self.tensors = ()

    def times(self) -> tuple[int, int]:
        """Block until it has ended, and let its tensors go; when it began and ended."""
        self.ended.event.synchronize()
        self.tensors = ()
        bridge = self.ended.bridge
        self.ended.read()
        return self.began.bridge.time_of(self.began.event), bridge.time_of(self.ended.event)


def new_stream() -> Any:  # noqa: ANN401 - a CUDA stream
    """A side stream of the current device."""
    return _cuda.Stream()


def stay_with(stream: Any) -> None:  # noqa: ANN401 - a CUDA stream
    """Let this thread, which begins on the first GPU, be on the stream's: it must wake no other."""
    _cuda.set_device(stream.device)


def is_current(device: torch.device) -> bool:
    """Whether what this rank starts runs on that GPU."""
    return bool(_cuda.current_device() == device.index)


def bridge_to(device: torch.device) -> Bridge:
    """Tie the device's time to the host's clock: the narrowest of several tries counts."""
    return min((_try(device) for _ in range(_TRIES)), key=lambda each: each.error_ns)


def stamps_of(device: torch.device) -> Stamps:
    """What makes stamps on a device."""
    return Stamps(bridge_to(device))


def issue(
    stream: Any,  # noqa: ANN401 - a CUDA stream
    stamps: Stamps,
    tensors: tuple[torch.Tensor, ...],
    start: Callable[[], object],
) -> Issued:
    """`start` a collective of `tensors` on `stream`. See Note [Streams wait, the host does not]."""
    caller = _cuda.current_stream()
    stream.wait_stream(caller)
    with _cuda.stream(stream):
        began = stamps()
        start()
        return Issued(began, stamps(), tensors, caller)


def _try(device: torch.device) -> Bridge:
    _cuda.synchronize(device)
    event = _cuda.Event(enable_timing=True)
    before = time.perf_counter_ns()
    event.record(_cuda.current_stream(device))
    event.synchronize()
    after = time.perf_counter_ns()
    return Bridge(event, (before + after) // 2, (after - before + 1) // 2)
