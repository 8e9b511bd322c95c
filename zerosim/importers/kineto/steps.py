"""Training steps: the windows that `ProfilerStep#N` marks, and which one a moment falls into."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from zerosim.importers.kineto.events import STEP, Slice
from zerosim.importers.recording import Window


def step_windows(marks: Iterable[Slice]) -> tuple[Window, ...]:
    """One window a step, ascending in time; of several rows for a step, the longest counts."""
    longest: dict[int, Slice] = {}
    for mark in marks:
        number = mark.name.removeprefix(STEP)
        if not number.isascii() or not number.isdigit() or len(number) > 9:  # noqa: PLR2004 - fits i32
            continue
        step = int(number)
        seen = longest.get(step)
        if seen is None or mark.end - mark.start > seen.end - seen.start:
            longest[step] = mark
    windows = (Window(step, mark.start, mark.end) for step, mark in longest.items())
    return tuple(sorted(windows, key=lambda w: (w.start_ns, w.step)))


def step_at(windows: Sequence[Window], moments: Sequence[int | None]) -> list[int | None]:
    """The step whose window holds each moment; None outside all windows or for None."""
    starts = [w.start_ns for w in windows]

    def find(moment: int | None) -> int | None:
        index = -1 if moment is None else bisect_right(starts, moment) - 1
        inside = index >= 0 and moment is not None and moment < windows[index].end_ns
        return windows[index].step if inside else None

    return [find(moment) for moment in moments]
