"""The scoreboard as text and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from zerosim.cli.output import log, print_rows, print_table
from zerosim.units import format_ns
from zerosim.validation.ablation import SUITES, Ablated
from zerosim.validation.board import Scoreboard, Suite
from zerosim.validation.fit import Fit
from zerosim.validation.reasons import reasons
from zerosim.validation.score import Errors, Scored

_SHOWN: Final = 10


def board_record(board: Scoreboard) -> dict[str, Any]:
    """The scoreboard as plain values: `rows`, `left_out` and `scores`."""
    return {
        "rows": [_row(row) for row in board.rows],
        "left_out": [asdict(left) for left in board.left_out],
        "scores": {
            "suites": {suite.name: asdict(suite) for suite in board.suites},
            "scaling": [asdict(e) | {"points": e.points} for e in board.efficiencies],
            "null": asdict(board.null),
            "filled": dict(board.filled),
            "peers": [asdict(peer) for peer in board.peers],
        },
    }


def _row(row: Scored) -> dict[str, Any]:
    filled = [dict(zip(("column", "value", "why"), d, strict=True)) for d in row.defaults]
    return asdict(row) | {"ln_ratio": row.ln_ratio, "defaults": filled}


def fit_record(found: Fit) -> dict[str, Any]:
    """A fit as plain values: each constant with its number, and what is left by source."""
    return {
        "constants": [
            {"kind": c.kind, "of": c.of, "name": c.name, "value": number, "spread": spread}
            for c, number, spread in zip(found.constants, found.values, found.spread, strict=True)
        ],
        "residuals": [asdict(left) for left in found.residuals],
        "calibration": found.calibration.to_dict(),
    }


def fit_rows(found: Fit) -> list[tuple[str, str]]:
    """A fit as lines: each constant, give or take what the rows cannot tell apart."""
    rows = [
        (c.label, f"{number:.4g}{'' if spread is None else f'  ± {spread:.0%}'}")
        for c, number, spread in zip(found.constants, found.values, found.spread, strict=True)
    ]
    rows += [
        (f"left, {r.source_id}", f"mean {r.mean:.1%}, median {r.median:.1%}, bias {r.bias:+.1%}")
        for r in found.residuals
    ]
    return [*rows, ("", "")]


def ablation_rows(found: Sequence[Ablated]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """An ablation as a table: median and mean error by suite, without each mechanism."""
    header = ("without", *SUITES, "scaling", "what it is")
    rows = []
    for one in found:
        cells = (
            f"{e.median:.1%} / {e.mean:.1%}" if (e := one.errors.get(name)) is not None else ""
            for name in SUITES
        )
        points = one.scaling.get(SUITES[0])
        scaling = "" if points is None else f"{points:.1f} points"
        rows.append((one.mechanism or "nothing", *cells, scaling, one.says))
    return header, rows


def print_board(board: Scoreboard) -> None:
    """Write the scoreboard to stdout; what is left out goes to stderr, one sentence a reason."""
    for reason in reasons(board.left_out):
        if reason.wanted:
            log(reason.line)
    unread = sum(left.wanted for left in board.left_out)
    print_rows(
        [
            ("scored", f"{len(board.rows)} rows"),
            ("left out", f"{unread} rows that cannot be simulated, see above"),
            ("not meant", f"{len(board.left_out) - unread} rows marked extra or not simulatable"),
        ]
    )
    header = ("rows", "n", "sources", "median", "mean", "p90", "bias", "null median", "scaling")
    print_table(header, [_line(suite) for suite in board.suites])
    for suite in board.suites[:1]:
        _print_suite(board, suite)


def _line(suite: Suite) -> tuple[str, ...]:
    null = "" if suite.null is None else f"{suite.null.median:.1%}"
    scaling = "" if suite.scaling is None else f"{suite.scaling.median:.1f} points"
    return (suite.name, *_cells(suite.errors), null, scaling)


def _cells(found: Errors) -> tuple[str, ...]:
    shares = (f"{x:.1%}" for x in (found.median, found.mean, found.p90))
    return (str(found.n_rows), str(found.n_sources), *shares, f"{found.bias:+.1%}")


def _print_suite(board: Scoreboard, suite: Suite) -> None:
    print_rows([("", ""), (suite.name, suite.says)])
    header = ("of", "value", "n", "sources", "median", "mean", "p90", "bias", "null median")
    rows = [
        (s.fact, s.value, *_cells(s.errors), "" if s.null is None else f"{s.null.median:.1%}")
        for s in suite.slices
    ]
    print_table(header, rows)
    print_rows([("", ""), ("worst first", "predicted, measured")])
    named = {row.row_id: row for row in board.rows}
    for row_id in suite.worst[:_SHOWN]:
        row = named[row_id]
        times = (format_ns(x * 1e9) for x in (row.predicted_s, row.measured_s))
        about = (row.facts[f] for f in ("source", "gpu", "model", "GPUs"))
        print_rows([(row_id, "  ".join((f"{row.ln_ratio:+.1%}", *times, *about)))])
    for one in suite.shared:
        share = f"{one.among_worst} of the worst {one.n_worst}, {one.among_all} of {one.n_all}"
        print_rows([("shared", f"{one.fact} {one.value}: {share}")])
