"""The report on an import, as people read it: a line a fact, and no unknown as 0."""

from __future__ import annotations

from typing import Any

from zerosim.analysis.report_text import report_rows

REPORT: dict[str, Any] = {
    "events": 1200,
    "repaired": 1,
    "skipped": 2,
    "lost": 0,
    "before_window": 3,
    "ranks_present": [[0, 2], [5, 5]],
    "ranks_missing": [[3, 4]],
    "steps": [[10, 13]],
    "collectives": {"sized": 40, "unsized": 4},
    "clock": {
        "aligned": False,
        "error_ns": 2_000_000,
        "offsets_ns": [[0, 0], [1, -500]],
        "corrected": True,
    },
    "places": [{"source": "a.json", "byte": 12_345, "what": "left out"}] * 7,
    "unknown": ["memory: nobody wrote it down"],
    "warnings": ["odd"],
}


def test_each_fact_of_the_report_has_its_line() -> None:
    assert report_rows(REPORT) == [
        ("events", "1,200 read, 1 repaired, 2 skipped, 0 lost"),
        ("ranks", "0-2, 5; missing: 3-4"),
        ("steps", "10-13"),
        ("collectives", "40 of known size, 4 of unknown"),
        ("before the recording", "3 ops launched"),
        ("clock", "ranks cannot be compared as they are, within 2 ms; moved: rank 1 by -500 ns"),
        *[("odd", "'a.json' at byte 12,345: left out")] * 5,
        ("odd", "… and 2 more places"),
        ("unknown", "memory: nobody wrote it down"),
        ("warning", "odd"),
    ]


def test_what_nobody_knows_is_said_to_be_unknown() -> None:
    bare = REPORT | {"ranks_missing": None, "steps": [], "places": [], "ranks_present": [[0, 0]]}
    rows = dict(report_rows(bare))
    assert rows["ranks"] == "0; others unknown"
    assert rows["steps"] == "none marked"
    assert rows["clock"] == "one rank alone"


def test_what_many_files_have_in_common_is_told_once() -> None:
    alike = [f"'rank{r}.json' has {9 - r} collectives of unknown size" for r in range(4)]
    warnings = [alike[0], "'rank0.json' has 1 op", *alike[1:], "'rank1.json' has 2 op"]
    told = [
        text for name, text in report_rows(REPORT | {"warnings": warnings}) if name == "warning"
    ]
    assert told == [
        "'rank0.json' has 9 collectives of unknown size (and 3 more like it)",
        "'rank0.json' has 1 op",
        "'rank1.json' has 2 op",
    ]


def test_nothing_to_compare_or_to_size_is_said_so() -> None:
    bare = {"ranks_present": [], "collectives": {"sized": 0, "unsized": 0}}
    rows = dict(report_rows(REPORT | bare))
    assert rows["ranks"] == "none; missing: 3-4"
    assert rows["collectives"] == "none"
    assert rows["clock"] == "no ranks to compare"
