"""How good the input of a run was: what was read, mended and left out, who is missing, what nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import polars as pl

from zerosim.kinds import SIZED
from zerosim.trace import Trace, of_kind

COUNTS: Final = ("events", "repaired", "skipped", "lost", "before_window", "unsized")


def assess(trace: Trace) -> dict[str, Any]:
    """The quality of an imported run, ready for JSON; ranges are inclusive, null is unknown.

    `ranks`: present, and missing of those that the run had. `steps`: first and last found of each
    stretch. `collectives`: how many rows have a size and how many have none.
    """
    quality = trace.meta.quality
    present = _ranges({*trace.ranks, *quality.ranks})
    world = trace.meta.world_size
    rows = trace.spans.filter(of_kind(SIZED))
    unsized = rows.filter(pl.col("elements").is_null() & pl.col("nbytes").is_null()).height
    clock = trace.meta.clock
    return {
        **{name: getattr(quality, name) for name in COUNTS},
        "ranks_present": present,
        "ranks_missing": None if world is None else _gaps(present, world),
        "steps": _ranges(
            {w.step for w in trace.meta.steps} | set(trace.spans["step"].drop_nulls())
        ),
        "collectives": {"sized": rows.height - unsized, "unsized": unsized},
        "clock": {
            "aligned": clock.aligned,
            "error_ns": clock.error_ns,
            "offsets_ns": [list(pair) for pair in clock.offsets_ns],
            "corrected": clock.corrected,
        },
        "places": [asdict(place) for place in quality.places],
        "unknown": list(quality.unknown),
        "warnings": list(quality.warnings),
    }


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _gaps(ranges: Iterable[Sequence[int]], end: int) -> list[list[int]]:
    """What of 0 to `end` (exclusive) lies in none of `ranges`: a file may claim millions of ranks."""
    found, begin = [], 0
    for first, last in ranges:
        if first > begin:
            found.append([begin, first - 1])
        begin = last + 1
    return [*found, [begin, end - 1]] if begin < end else found
