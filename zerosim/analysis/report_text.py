"""The report on an import as text: what was read, mended, left out; who is missing; what is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zerosim.units import format_ns

_SHOWN: Final = 5
"""Odd places that are told; JSON has more."""


def report_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line."""
    counts = ", ".join(f"{report[name]:,} {name}" for name in ("repaired", "skipped", "lost"))
    collectives = report["collectives"]
    sized = f"{collectives['sized']:,} of known size, {collectives['unsized']:,} of unknown"
    rows = [
        ("events", f"{report['events']:,} read, {counts}"),
        ("ranks", _ranks(report["ranks_present"], report["ranks_missing"])),
        ("steps", _ranges(report["steps"]) or "none marked"),
        ("collectives", sized),
        ("before the recording", f"{report['before_window']:,} ops launched"),
        ("clock", _clock(report["clock"], report["ranks_present"])),
    ]
    places = report["places"]
    rows += [("odd", _place(place)) for place in places[:_SHOWN]]
    rows += [("odd", f"… and {len(places) - _SHOWN} more places")] if len(places) > _SHOWN else []
    rows += [("unknown", text) for text in report["unknown"]]
    return rows + [("warning", text) for text in report["warnings"]]


def _ranks(present: Sequence[Sequence[int]], missing: Sequence[Sequence[int]] | None) -> str:
    absent = (
        "others unknown" if missing is None else _ranges(missing) and f"{_ranges(missing)} missing"
    )
    return ", ".join(filter(None, (_ranges(present) or "none", absent or "none missing")))


def _ranges(ranges: Sequence[Sequence[int]]) -> str:
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def _place(place: Mapping[str, Any]) -> str:
    byte = "" if place["byte"] is None else f" at byte {place['byte']:,}"
    return f"'{place['source']}'{byte}: {place['what']}"


def _clock(clock: Mapping[str, Any], present: Sequence[Sequence[int]]) -> str:
    if sum(b - a + 1 for a, b in present) <= 1:
        return "one rank alone"
    agree = "ranks agree" if clock["aligned"] else "ranks disagree"
    error = "" if clock["error_ns"] is None else f", by up to {format_ns(clock['error_ns'])}"
    moves = [f"rank {rank} {ns:+,} ns" for rank, ns in clock["offsets_ns"] if ns]
    shown = ", ".join([*moves[:_SHOWN], *(["…"] if len(moves) > _SHOWN else [])])
    told = "moved" if clock["corrected"] else "their collectives end together with"
    return agree + error + (f"; {told} {shown}" if shown else "")
