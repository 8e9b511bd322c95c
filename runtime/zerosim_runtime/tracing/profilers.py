"""Making way for the program's own profiler, which torch allows only one of at a time.

While it runs, Gloo's spans stand in its result; they are read there, once, when it stops.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from torch.autograd import profiler

from zerosim_runtime.tracing.calls import Call
from zerosim_runtime.tracing.pending import Pending
from zerosim_runtime.tracing.worker_times import Times, WorkerTimes

_WORKER: Final = "gloo:"
_SLACK_NS: Final = 100_000
"""By how much the two clocks may be apart."""
_profiler: Final[Any] = profiler


def make_way(times: WorkerTimes, pending: Pending) -> Callable[[], None]:
    """Step aside when the program starts a profiler, and come back when it stops. Returns what ends that."""
    enable, disable = _profiler._enable_profiler, _profiler._disable_profiler  # noqa: SLF001 - torch has no public way
    yielded = False

    def yielding(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch's own
        nonlocal yielded
        if times.here():
            pending.sweep()
            pending.settle(times.stop())
            pending.call_back_all()
            times.profiled = yielded = True
        return enable(*args, **kwargs)

    def returning(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch's own
        nonlocal yielded
        result = disable(*args, **kwargs)
        if yielded:
            yielded = times.profiled = False
            pending.sweep()
            pending.settle(match(pending.profiled(), _events(result)))
            times.start()
        return result

    _profiler._enable_profiler, _profiler._disable_profiler = yielding, returning  # noqa: SLF001 - as above

    def undo() -> None:
        _profiler._enable_profiler, _profiler._disable_profiler = enable, disable  # noqa: SLF001 - as above

    return undo


def match(calls: Iterable[Call], ranges: Iterable[tuple[str, int, int]]) -> dict[int, Times]:
    """The times of calls by number: Gloo's queues keep the order, so the n-th of a title is the n-th.

    `ranges` are titles, starts and ends in perf_counter nanoseconds.
    """
    waiting: dict[str, deque[Call]] = {}
    for call in calls:
        waiting.setdefault(call.sort.title, deque()).append(call)
    found: dict[int, list[Times]] = {}
    for title, start, end in sorted(ranges, key=lambda each: each[1]):
        queue = waiting.get(title)
        if not queue or start < queue[0].issued_ns - _SLACK_NS:
            continue
        call = queue[0]
        found.setdefault(call.number, []).append((start, end))
        if len(found[call.number]) == call.sort.n_pieces:
            queue.popleft()
    return {
        number: (min(start for start, _ in times), max(end for _, end in times))
        for number, times in found.items()
    }


def _events(result: Any) -> list[tuple[str, int, int]]:  # noqa: ANN401 - torch's own
    """Gloo's spans in what a profiler found; nothing if it is one that finds none (NVTX)."""
    by = time.perf_counter_ns() - time.time_ns()
    events = result.events() if hasattr(result, "events") else ()
    return [
        (event.name(), event.start_ns() + by, event.end_ns() + by)
        for event in events
        if event.name().startswith(_WORKER)
    ]
