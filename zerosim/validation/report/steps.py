"""The part about steps: suites, cuts of them, scaling, and the worst rows with what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from zerosim.units import format_ns
from zerosim.validation.board import Scoreboard, Suite
from zerosim.validation.report.markdown import BLANK, beside, cells, share, table
from zerosim.validation.scaling import Efficiency
from zerosim.validation.score import SLICES, Scored

UNSEEN: Final = ("test", "core-holdout", "mosaicml", "multi-node-fsdp", "wide-holdout")
"""Suites of rows that nothing was fitted on."""
SEEN: Final = ("calib", "core-calib")
_PARTIAL: Final = ("partial-test", "partial-calib")
_WORST: Final = 15
_HEADER: Final = (
    *("rows", "n", "median", "mean", "90 % within", "bias"),
    *("null median", "null mean", "null 90 %", "scaling, points"),
)
_TITLES: Final = {"source": "By source", "gpu": "By GPU", "size": "By size", "GPUs": "By GPU count"}


def unseen(board: Scoreboard) -> str:
    """The suites that nothing was fitted on, beside the null model."""
    return _suites(board, UNSEEN)


def seen(board: Scoreboard) -> str:
    """The suites that constants are fitted on, and those whose sources leave something out."""
    return (
        "## Rows that constants are fitted on\n\n"
        "These say how well the constants fit, not how far a prediction may be off.\n\n"
        f"{_suites(board, SEEN)}\n"
        "## Incomplete rows\n\n"
        "Their sources leave out what a step depends on; they count in no other table.\n\n"
        f"{_suites(board, _PARTIAL)}"
    )


def _suites(board: Scoreboard, names: Sequence[str]) -> str:
    found = [suite for name in names if (suite := board.suite(name)) is not None]
    rows = [(f"{s.name}: {s.says}", *cells(s.errors), *beside(s.null), _points(s)) for s in found]
    return table(_HEADER, rows)


def _points(suite: Suite) -> str:
    return BLANK if suite.scaling is None else f"{suite.scaling.median:.1f}"


def cuts(board: Scoreboard) -> str:
    """The unseen rows by source, GPU, size and count."""
    suite = board.suite("test")
    return "" if suite is None else "\n".join(_cuts(suite))


def _cuts(suite: Suite) -> Iterator[str]:
    for fact in SLICES:
        header = (fact, *_HEADER[1:-1])
        rows = [
            (s.value or "not stated", *cells(s.errors), *beside(s.null))
            for s in suite.slices
            if s.fact == fact
        ]
        yield f"### {_TITLES[fact]}\n\n{table(header, rows)}"


def scaling(board: Scoreboard) -> str:
    """Every scaling group, those that nothing was fitted on apart from the others."""
    parts = []
    for split, title in (("test", "Nothing was fitted on"), ("calib", "Constants are fitted on")):
        found = [e for e in board.efficiencies if e.split == split and e.simulatable == "yes"]
        if found:
            parts.append(f"### {title}\n\n{_groups(found)}")
    return "\n".join(parts)


def _groups(found: Sequence[Efficiency]) -> str:
    header = ("group", "source", "GPUs", "predicted", "measured", "error, points")
    ordered = sorted(found, key=lambda one: (-abs(one.points), one.group))
    return table(
        header,
        [
            (
                one.group,
                one.source_id,
                f"{one.from_gpus} → {one.to_gpus}",
                share(one.predicted),
                share(one.measured),
                f"{one.points:+.1f}",
            )
            for one in ordered
        ],
    )


def worst(board: Scoreboard) -> str:
    """The worst unseen rows, and what they have in common."""
    suite = board.suite("test")
    if suite is None:
        return ""
    named = {row.row_id: row for row in board.rows}
    header = ("row", "source", "GPUs", "model", "predicted", "measured", "error", "null", "assumed")
    rows = [_row(named[row_id]) for row_id in suite.worst[:_WORST]]
    lines = [
        f"- {one.fact} {one.value}: {one.among_worst} of the worst {one.n_worst}, "
        f"{one.among_all} of all {one.n_all}"
        for one in suite.shared
    ]
    shared = "\n".join(["What the worst tenth has more often than all have:", "", *lines, ""])
    return f"{table(header, rows)}\n{shared}"


def _row(row: Scored) -> tuple[str, ...]:
    filled = ", ".join(f"{column} = {value}" for column, value, _ in row.defaults)
    return (
        row.row_id,
        row.source_id,
        f"{row.n_gpus} {row.facts['gpu']}",
        row.facts["model"],
        format_ns(row.predicted_s * 1e9),
        format_ns(row.measured_s * 1e9),
        share(row.ln_ratio, signed=True),
        share(row.null_ln_ratio, signed=True),
        filled or BLANK,
    )
