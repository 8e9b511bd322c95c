"""Measured memory beside what is predicted, as text and as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from zerosim.cli.output import log, print_rows, print_table
from zerosim.units import format_bytes, format_count
from zerosim.validation.memory import FitScore, MemoryScore, MemoryScores
from zerosim.validation.score import Errors

_SHOWN: Final = 10


def memory_record(scores: MemoryScores) -> dict[str, Any]:
    """The scores as plain values: `rows`, `fits`, `left_out` and `scores` by split and source.

    What is in parameters (`largest`) is no `predicted_bytes`, but `predicted_params`.
    """
    return {
        "rows": [_row(row) for row in scores.rows],
        "fits": [_fit(one) for one in scores.fits],
        "left_out": [asdict(left) for left in scores.left_out],
        "scores": {
            "splits": {
                split.split: {
                    "errors": None if split.errors is None else asdict(split.errors),
                    "sources": {source: asdict(errors) for source, errors in split.sources},
                    "hits": split.hits,
                    "claims": split.claims,
                }
                for split in scores.splits
            },
            "filled": dict(scores.filled),
        },
    }


def _row(row: MemoryScore) -> dict[str, Any]:
    in_bytes = not row.in_parameters
    values = {"predicted": row.predicted, "measured": row.measured}
    return {
        **asdict(row),
        **{f"{name}_bytes": value if in_bytes else None for name, value in values.items()},
        **{f"{name}_params": None if in_bytes else value for name, value in values.items()},
        "ln_ratio": row.ln_ratio,
        "defaults": _named(row.defaults),
    }


def _fit(one: FitScore) -> dict[str, Any]:
    return asdict(one) | {"hit": one.hit, "defaults": _named(one.defaults)}


def _named(defaults: tuple[tuple[str, str, str], ...]) -> list[dict[str, str]]:
    return [dict(zip(("column", "value", "why"), d, strict=True)) for d in defaults]


def print_memory(scores: MemoryScores) -> None:
    """The same as text: errors by split and source, what fits, the worst rows; reasons to stderr."""
    for left in scores.left_out:
        if left.wanted:
            log(f"{left.sentence} ({left.source_id})")
    unread = sum(left.wanted for left in scores.left_out)
    print_rows(
        [
            ("memory", f"{len(scores.rows)} figures, {len(scores.fits)} claims of what fits"),
            ("left out", f"{unread} rows that cannot be compared, see above"),
            ("not meant", f"{len(scores.left_out) - unread} rows marked extra"),
        ]
    )
    header = ("split", "source", "n", "median", "mean", "p90", "bias", "what fits")
    lines = []
    for split in scores.splits:
        hits = f"{split.hits} of {split.claims}" if split.claims else ""
        if split.errors is not None or split.claims:
            lines.append((split.split, "all", *_cells(split.errors), hits))
        lines += [(split.split, source, *_cells(errors), "") for source, errors in split.sources]
    print_table(header, lines)
    print_rows([("", ""), ("worst first", "predicted, measured")])
    for row in sorted(scores.rows, key=lambda row: -abs(row.ln_ratio))[:_SHOWN]:
        show = format_count if row.in_parameters else format_bytes
        values = "  ".join(show(value) for value in (row.predicted, row.measured))
        about = f"{row.split}  {row.source_id}  {row.figure}"
        print_rows([(row.row_id, f"{row.ln_ratio:+.1%}  {values}  {about}")])


def _cells(errors: Errors | None) -> tuple[str, ...]:
    if errors is None:
        return ("0", "", "", "", "")
    shares = (f"{share:.1%}" for share in (errors.median, errors.mean, errors.p90))
    return (str(errors.n_rows), *shares, f"{errors.bias:+.1%}")
