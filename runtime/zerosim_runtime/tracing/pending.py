"""Collectives that were issued and whose times are not known yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zerosim_runtime.ring import Ring
from zerosim_runtime.tracing.calls import Call, span_of
from zerosim_runtime.tracing.lanes import Lanes
from zerosim_runtime.tracing.spans import Span

_now: Final = time.perf_counter_ns


@dataclass(slots=True)
class Pending:
    """Calls in issue order; `add` gets the spans of those whose times are known, or never will be."""

    add: Callable[[Span], None]
    ring: Ring
    calls: dict[int, Call] = field(default_factory=dict)
    running: dict[int, Call] = field(default_factory=dict)
    lanes: Lanes = field(default_factory=Lanes)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, call: Call) -> None:
        """A call that was just issued; lets go of those that have ended before the first that has not."""
        with self.lock:
            while self.running:
                first = next(iter(self.running.values()))
                if first.timing is not None or not (
                    first.work is None or first.work.is_completed()
                ):
                    break
                self._over(first.number, first)
            self.calls[call.number] = call
            if call.work is not None or call.timing is not None:
                self.running[call.number] = call

    def sweep(self) -> bool:
        """Let go of the works that have ended; whether none is left that could tell."""
        with self.lock:
            on_device = [call for call in self.running.values() if call.timing is not None]
            if on_device:
                self._look_at_device(on_device)
            for call in tuple(self.running.values()):
                if call.timing is None and (call.work is None or call.work.is_completed()):
                    self._over(call.number, call)
            return not any(_tells(call) for call in self.running.values())

    def _look_at_device(self, calls: list[Call]) -> None:
        """Take over the times of what has ended on a GPU: in a queue, up to the first that has not."""
        held: set[str] = set()
        for call in calls:
            timing = call.timing
            if timing is None or call.stream in held:
                continue
            if not timing.over(call.work):
                held.add(call.stream)
                continue
            call.start_ns, call.end_ns = timing.times(call.work) or (None, None)
            call.timing = None
            self._over(call.number, call)
        if len(held) < len(calls):
            self._emit()

    def settle(self, times: Mapping[int, tuple[int, int]], *, last: bool = True) -> None:
        """Take over times by number. `last`: those awaited that have none now will never have any."""
        with self.lock:
            for number, (start_ns, end_ns) in times.items():
                call = self.calls.get(number)
                if call is None or not call.awaited:
                    continue
                call.start_ns = max(start_ns, call.issued_ns)
                call.end_ns = max(end_ns, call.start_ns)
                self._over(number, call)
            for call in self.calls.values() if last else ():
                call.awaited = False
                if call.timing is None and not _tells(call):
                    self._over(call.number, call)
            self._emit()

    def call_back(self, call: Call) -> None:
        """Have the end of a call noted by its future, for want of anything better."""
        if call.timing is not None:
            return  # on a GPU a future says that the call was enqueued
        try:
            future = call.work.get_future() if call.work is not None else None
        except RuntimeError:
            # Gloo's reduce-scatter and messages have none.
            future = None
        if future is not None:
            call.called_back = True
            future.add_done_callback(lambda _: self._called_back(call))

    def call_back_all(self) -> None:
        """Have the ends of all calls under way noted, now that nobody else does."""
        with self.lock:
            for call in self.running.values():
                self.call_back(call)

    def profiled(self) -> list[Call]:
        """The calls that the program's own profiler times."""
        with self.lock:
            return [call for call in self.calls.values() if call.awaited]

    def close(self) -> None:
        """Add what is left, as far as it is known."""
        with self.lock:
            self.running.clear()
            for call in self.calls.values():
                call.awaited, call.work, call.timing = False, None, None
            self._emit()

    def _called_back(self, call: Call) -> None:
        call.end_ns = _now()

    def _over(self, number: int, call: Call) -> None:
        call.work = None
        if self.running.pop(number, None) is not None or call.slot >= 0:
            self.ring.end(call.slot, call.end_ns or _now())
            call.slot = -1

    def _emit(self) -> None:
        done = [c for c in self.calls.values() if not (c.awaited or c.work or c.timing)]
        done.sort(key=lambda call: call.start_ns or call.issued_ns)
        for call in done:
            del self.calls[call.number]
            self.add(self._timed(call))

    def _timed(self, call: Call) -> Span:
        queue, start, end = call.stream, call.start_ns, call.end_ns
        if end is None:
            return span_of(call, queue, None, None)
        if start is None:
            # Of a call-back only the end is known: it began once its queue was free.
            free = min(self.lanes.ends.get(queue, []), default=0)
            start = min(max(call.issued_ns, free), end)
        return span_of(call, self.lanes.place(queue, start, end), start, end)


def _tells(call: Call) -> bool:
    return call.work is not None and not call.sort.silent and call.timing is None
