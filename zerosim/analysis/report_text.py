"""The report on an import as text: what was read, mended, left out; who is missing; what is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from zerosim.units import format_ns

_SHOWN: Final = 5
"""Odd places that are told; JSON has more."""
_ALIKE: Final = 3
"""So many warnings that differ by file and number alone are told as one; JSON has them all."""
_DIFFERS: Final = re.compile(r"^'[^']*'|\d[\d,]*")


def report_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line."""
    counts = ", ".join(f"{report[name]:,} {name}" for name in ("repaired", "skipped", "lost"))
    rows = [
        ("events", f"{report['events']:,} read, {counts}"),
        ("ranks", _ranks(report["ranks_present"], report["ranks_missing"])),
        ("steps", _ranges(report["steps"]) or "none marked"),
        ("collectives", _sized(**report["collectives"])),
        ("before the recording", f"{report['before_window']:,} ops launched"),
        ("clock", _clock(report["clock"], report["ranks_present"])),
    ]
    places = report["places"]
    rows += [("odd", _place(place)) for place in places[:_SHOWN]]
    rows += [("odd", f"… and {len(places) - _SHOWN} more places")] if len(places) > _SHOWN else []
    rows += [("unknown", text) for text in report["unknown"]]
    return rows + [("warning", text) for text in gathered(report["warnings"])]


def gathered(warnings: Iterable[str]) -> list[str]:
    """The warnings, those that say the same of many files or ranks as the first of them."""
    alike: dict[str, list[str]] = {}
    for text in warnings:
        alike.setdefault(_DIFFERS.sub("#", text), []).append(text)
    found: list[str] = []
    for texts in alike.values():
        many = len(texts) >= _ALIKE
        found += [f"{texts[0]} (and {len(texts) - 1} more like it)"] if many else texts
    return found


def _ranks(present: Sequence[Sequence[int]], missing: Sequence[Sequence[int]] | None) -> str:
    absent = "others unknown" if missing is None else f"missing: {_ranges(missing) or 'none'}"
    return f"{_ranges(present) or 'none'}; {absent}"


def _ranges(ranges: Sequence[Sequence[int]]) -> str:
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def _sized(sized: int, unsized: int) -> str:
    return f"{sized:,} of known size, {unsized:,} of unknown" if sized or unsized else "none"


def _place(place: Mapping[str, Any]) -> str:
    byte = "" if place["byte"] is None else f" at byte {place['byte']:,}"
    return f"'{place['source']}'{byte}: {place['what']}"


def _clock(clock: Mapping[str, Any], present: Sequence[Sequence[int]]) -> str:
    n_ranks = sum(b - a + 1 for a, b in present)
    if n_ranks <= 1:
        return "one rank alone" if n_ranks else "no ranks to compare"
    agree = "ranks agree" if clock["aligned"] else "ranks cannot be compared as they are"
    error = "" if clock["error_ns"] is None else f", within {format_ns(clock['error_ns'])}"
    moves = [f"rank {rank} by {_signed(ns)}" for rank, ns in clock["offsets_ns"] if ns]
    shown = ", ".join([*moves[:_SHOWN], *(["…"] if len(moves) > _SHOWN else [])])
    told = "moved" if clock["corrected"] else "collectives would end together if moved"
    return agree + error + (f"; {told}: {shown}" if shown else "")


def _signed(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{format_ns(abs(ns))}"
