"""When Gloo's workers began and ended each collective, by torch's own record of them.

# Note [The worker's own times]
Gloo opens a record function (`gloo:all_reduce`) when a worker thread takes a collective from its group's
queue, and closes it when the collective has ended. torch's legacy profiler notes both, whoever holds the
GIL, and unlike Kineto it may be stopped while collectives are under way: what ends late is lost, nothing
breaks. Record functions are off in between, so that the ops of the model cost nothing; they are on for
the length of a call, inside a record function of ours that bears the call's number. What Gloo opens
inside has a handle between ours and the next one's, so each span is tied to its call for certain. The
begin of ours is known on both clocks: by it the profiler's times become perf_counter's.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._C import _autograd, _profiler

_WORKER: Final = "gloo:"
_OURS: Final = "zerosim: a collective"
# torch has no public way to any of these.
_enable: Final[Any] = getattr(_autograd, "_enable_profiler_legacy", None)
_disable: Final[Any] = getattr(_autograd, "_disable_profiler_legacy", None)
_record: Final[Any] = getattr(_autograd, "_enable_record_function", None)
_profiled: Final[Any] = getattr(_autograd, "_profiler_enabled", None)
_Mark: Final[Any] = getattr(_profiler, "_RecordFunctionFast", None)
_types: Final[Any] = _profiler

Times = tuple[int, int]
"""Start and end, perf_counter nanoseconds."""


def can_time() -> bool:
    """Whether this torch has what it takes."""
    return all((_enable, _disable, _record, _profiled, _Mark))


@dataclass(slots=True)
class WorkerTimes:
    """The times of collectives that one thread issues; only that thread may start, drain and stop."""

    thread: int = field(default_factory=threading.get_ident)
    running: bool = False
    profiled: bool = False
    """Whether the program's own profiler records this thread instead."""
    issued: list[tuple[int, int]] = field(default_factory=list)

    def here(self) -> bool:
        """Whether calls of the present thread are timed."""
        return self.running and threading.get_ident() == self.thread

    def elsewhere(self) -> bool:
        """Whether the program's own profiler will tell the times of calls of the present thread."""
        return self.profiled and threading.get_ident() == self.thread

    def start(self) -> bool:
        """Begin to time; whether it could: not while the program profiles this thread itself."""
        if not self.running and can_time() and not profiled():
            _enable(_config())
            _record(False)
            self.running = True
        return self.running

    def abandon(self) -> None:
        """Forget everything, in a forked child."""
        if self.running:
            self.stop()

    def carry_out(self, number: int, issued_ns: int, proceed: Callable[[], Any]) -> Any:  # noqa: ANN401 - as it is
        """What `proceed` issues is call `number`, which was issued at `issued_ns`; only if `here`."""
        self.issued.append((number, issued_ns))
        _record(True)
        try:
            with _Mark(_OURS):
                return proceed()
        finally:
            _record(False)

    def stop(self) -> dict[int, Times]:
        """The times of all calls that have ended, by number; others will have none."""
        if not self.running:
            return {}
        self.running = False
        lists = _disable()
        _record(True)
        issued, self.issued = self.issued, []
        return _times(_ranges(lists), issued)

    def drain(self) -> dict[int, Times]:
        """As `stop`, and goes on. Not inside a backward, which would bring the old state back."""
        if not self.running or in_backward():
            return {}
        found = self.stop()
        self.start()
        return found


def profiled() -> bool:
    """Whether a profiler, ours included, records this thread."""
    return bool(_profiled and _profiled())


def current_graph() -> int:
    """The number of the graph that autograd runs in this thread now, -1 for none."""
    return int(torch._C._current_graph_task_id())  # noqa: SLF001 - torch has no public way


def in_backward() -> bool:
    """Whether autograd runs a graph in this thread now."""
    return current_graph() != -1


def _config() -> object:
    made: object = _types.ProfilerConfig(
        _types.ProfilerState.CPU,
        False,  # input shapes
        False,  # memory
        False,  # stacks
        False,  # FLOPs
        False,  # modules
        _types._ExperimentalConfig(),  # noqa: SLF001 - torch has no public way
    )
    return made


@dataclass(frozen=True, slots=True)
class _Range:
    """A record function: handles count up as they are opened. Times since the profiler began."""

    handle: int
    name: str
    start_ns: int
    end_ns: int


def _ranges(lists: list[list[Any]]) -> list[_Range]:
    events = [event for each in lists for event in each]
    first = next((e for e in events if e.kind() == "mark"), None)
    if first is None:
        return []
    opened: dict[int, tuple[str, Any]] = {}
    closed: dict[int, Any] = {}
    for event in events:
        # Only what closes has no name.
        name = event.name()
        if not name:
            closed[event.handle()] = event
        elif name == _OURS or name.startswith(_WORKER):
            opened[event.handle()] = name, event
    return sorted(
        (
            _Range(handle, name, _since(first, event), _since(first, closed[handle]))
            for handle, (name, event) in opened.items()
            if handle in closed
        ),
        key=lambda each: each.handle,
    )


def _since(first: Any, event: Any) -> int:  # noqa: ANN401 - events of the legacy profiler
    elapsed_us: float = first.cpu_elapsed_us(event)
    return round(elapsed_us * 1000)


def _times(ranges: list[_Range], issued: Sequence[tuple[int, int]]) -> dict[int, Times]:
    ours = [each for each in ranges if each.name == _OURS]
    if not ours or len(ours) != len(issued):
        return {}
    calls = dict(zip((each.handle for each in ours), issued, strict=True))
    by = statistics.median_low(calls[each.handle][1] - each.start_ns for each in ours)
    found: dict[int, Times] = {}
    number = -1
    for each in ranges:
        if each.handle in calls:
            number = calls[each.handle][0]
            continue
        # Several of one call (a reduce-scatter of a list): from the first begin to the last end.
        start, end = each.start_ns + by, each.end_ns + by
        known = found.get(number, (start, end))
        found[number] = (min(start, known[0]), max(end, known[1]))
    found.pop(-1, None)
    return found
