"""`zerosim compare`: two runs side by side, whoever made them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from zerosim.analysis.comparison import compare as compare_traces
from zerosim.cli.options import Json
from zerosim.cli.output import print_json, print_rows, print_table
from zerosim.store import load_run
from zerosim.units import format_ns

First = Annotated[Path, typer.Argument(metavar="A", help="A run directory.")]
Second = Annotated[Path, typer.Argument(metavar="B", help="Another one.")]
MAX_RESIDUALS: Final = 10
MAX_LABEL: Final = 60


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("compare")(compare)


def compare(a: First, b: Second, json: Json = False) -> None:
    """Match the ops of two runs and say where their step times part."""
    result = compare_traces(load_run(a), load_run(b))
    if json:
        print_json(result)
        return
    ratio = result["step_ratio"]
    print_rows(
        [
            ("a", result["a"]),
            ("b", result["b"]),
            ("step b / a", "unknown" if ratio is None else f"{ratio:.3f}"),
            (
                "matched",
                _matched(result),
            ),
        ]
    )
    accounts = result["accounting"]
    if accounts["a"] is not None and accounts["b"] is not None:
        print_table(("where the step goes", "a", "b"), _account_rows(accounts["a"], accounts["b"]))
    if result["residuals"]:
        print_table(("largest differences", "ranks", "a", "b"), _residual_rows(result["residuals"]))


def _matched(result: Mapping[str, Any]) -> str:
    share = result["matched_share"]
    return (
        f"{result['matched']} ops ({'unknown' if share is None else f'{share:.1%}'}), "
        f"{result['only_a']} only in a, {result['only_b']} only in b"
    )


def _account_rows(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, value in a.items():
        if isinstance(value, Mapping):
            for kind in dict.fromkeys([*value, *b[name]]):
                row = (f"exposed {kind}", value.get(kind, 0), b[name].get(kind, 0))
                rows.append((row[0], format_ns(row[1]), format_ns(row[2])))
        else:
            rows.append((name.removesuffix("_ns"), format_ns(value), format_ns(b[name])))
    return rows


def _residual_rows(residuals: list[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Ranks with the same times share a row."""
    alike: dict[tuple[str, int, int], list[int]] = {}
    for r in residuals:
        label = _short(f"{r['kind']} {'' if r['unit'] is None else r['unit']}")
        alike.setdefault((label, r["a_ns"], r["b_ns"]), []).append(r["rank"])
    return [
        (label, _ranks(ranks), format_ns(a_ns), format_ns(b_ns))
        for (label, a_ns, b_ns), ranks in islice(alike.items(), MAX_RESIDUALS)
    ]


def _ranks(ranks: list[int]) -> str:
    """`3`, `0-15`, or how many if they are no single run."""
    first, last, n = min(ranks), max(ranks), len(set(ranks))
    if n == 1:
        return str(first)
    return f"{first}-{last}" if last - first + 1 == n else f"{n} ranks"


def _short(label: str) -> str:
    """A label that leaves room for the figures: kernel names can be a page long."""
    label = label.strip()
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"
