"""Something to draw, on tracks on which nothing overlaps: intervals that cross each other are laid apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zerosim.errors import InputError
from zerosim.trace import Trace

MAX_TRACKS: Final = 2048
"""Nobody looks at more, and the time to find one grows with them."""


def refuse_empty(trace: Trace) -> None:
    """Raises InputError for a run in which no rank did anything."""
    if not trace.ranks:
        raise InputError(f"run '{trace.meta.name}' has no spans: there is nothing to draw")


def lay_apart(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """For each (start, end), the first track where it lies inside or beside all that are there.

    A stream that does one thing after the other, or one inside the other, needs track 0 alone.
    Raises InputError for one that needs more than MAX_TRACKS.
    """
    order = sorted(range(len(intervals)), key=lambda i: (intervals[i][0], -intervals[i][1]))
    tracks: list[list[int]] = []  # the ends of what is open, outermost first
    chosen = [0] * len(intervals)
    for i in order:
        start, end = intervals[i]
        chosen[i] = next(
            (t for t, ends in enumerate(tracks) if _fits(ends, start, end)), len(tracks)
        )
        if chosen[i] == len(tracks):
            tracks.append([])
            if len(tracks) > MAX_TRACKS:
                raise InputError(
                    f"more than {MAX_TRACKS} spans of one stream cross each other: "
                    "export the run --to parquet"
                )
        tracks[chosen[i]].append(end)
    return chosen


def _fits(ends: list[int], start: int, end: int) -> bool:
    while ends and ends[-1] <= start:
        ends.pop()
    return not ends or end <= ends[-1]
