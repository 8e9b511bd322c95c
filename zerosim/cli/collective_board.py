"""Scores of measured collectives as text and as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from zerosim.cli.output import log, print_rows, print_table
from zerosim.validation.collectives import CollectiveScores, SeriesScore


def collective_record(scores: CollectiveScores) -> dict[str, Any]:
    """The scores as plain values: `rows`, `left_out` and `scores` by series and by collective."""
    return {
        "rows": [asdict(row) | {"error": row.error} for row in scores.rows],
        "left_out": [asdict(left) for left in scores.left_out],
        "scores": {
            "series": [_plain(score) for score in scores.series],
            "kinds": [_plain(score) for score in scores.kinds],
        },
    }


def _plain(score: SeriesScore) -> dict[str, Any]:
    return asdict(score) | {"meets": score.meets}


def print_collectives(scores: CollectiveScores) -> None:
    """Write one line a series to stdout, worst first; what is left out goes to stderr by reason."""
    alike: dict[str, list[str]] = {}
    for left in scores.left_out:
        alike.setdefault(left.why, []).append(left.row_id)
    for why, rows in alike.items():
        more = f", and {len(rows) - 1} more like it" if len(rows) > 1 else ""
        log(f"collective {rows[0]}: {why}{more}")
    print_rows([("", ""), ("collectives", f"{len(scores.rows)} rows of measured collectives")])
    header = ("series", "split", "n", "mean", "n from 64 MiB", "mean there", "bias", "machine")
    print_table(header, [_line(score) for score in scores.series])


def _line(score: SeriesScore) -> tuple[str, ...]:
    shares = (score.mean, score.mean_large)
    mean, large = ("" if x is None else f"{x:.1%}" for x in shares)
    bias = "" if score.bias is None else f"{score.bias:+.1%}"
    counts = str(score.n), str(score.n_large)
    return score.series, score.split, counts[0], mean, counts[1], large, bias, score.cluster
