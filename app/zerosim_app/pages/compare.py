"""Compare: two runs on one axis, whoever made them, and where their steps differ."""

from __future__ import annotations

from typing import Any, Final

import dash
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from zerosim.analysis.accounting import account
from zerosim.analysis.comparison import compare
from zerosim.errors import ZerosimError
from zerosim.figures import tables
from zerosim.figures.ownership import owners
from zerosim.figures.waterfall import waterfall
from zerosim.units import format_ns
from zerosim_app.components.cards import drawing, empty, page, panel, problem, tile
from zerosim_app.components.facts import percent
from zerosim_app.components.runs import run_select
from zerosim_app.components.tables import Column, table
from zerosim_app.components.timeline import Options, RunUrl, timeline
from zerosim_app.shelf import shelf
from zerosim_app.urlstate import CompareState, decode

_MATCHED: Final = (
    Column("kind", "Kind", "kind", wide=True),
    Column("count", "Matched", "count", tip="Ops that are the same in both runs, over all ranks"),
    Column("a_sum", "A, sum", "ns"),
    Column("b_sum", "B, sum", "ns"),
    Column("a_median", "A, median", "ns"),
    Column("b_median", "B, median", "ns"),
    Column("delta_ns", "B \u2212 A", "ns"),
    Column("ratio", "B / A", "ratio"),
)
_RESIDUALS: Final = (
    Column("unit", "Layer", wide=True),
    Column("kind", "Kind", "kind"),
    Column("rank", "Rank", "count"),
    Column("a_ns", "A", "ns"),
    Column("b_ns", "B", "ns"),
    Column("delta_ns", "B \u2212 A", "ns"),
)
_MOST_RESIDUALS: Final = 2_000


def layout(**query: Any) -> html.Div:  # noqa: ANN401 - Dash hands in whatever the address says
    """The page of the two runs that the address names; with one or none, a choice."""
    state = decode(CompareState, query)
    choose = html.Div(
        [
            html.H1("Compare", className="zs-h1"),
            html.Div(
                [
                    html.B("A", className="zs-run-mark zs-run-a"),
                    run_select("compare-a", state.a, "Run A"),
                    html.B("B", className="zs-run-mark zs-run-b"),
                    run_select("compare-b", state.b, "Run B"),
                    dcc.Store(id="compare-ids", data=[state.a, state.b]),
                ],
                className="zs-row",
            ),
        ],
        className="zs-head",
    )
    if state.a is None or state.b is None:
        return page(choose, empty("Choose two runs: any two, whoever made them."))
    try:
        return page(choose, *_compared(state.a, state.b, state))
    except ZerosimError as error:
        return page(choose, problem(str(error)))


def register(app: Dash) -> None:
    """Put the page at `/compare`."""
    dash.register_page(
        "zerosim_app.compare", path="/compare", title="Compare · zerosim", layout=layout
    )
    app.clientside_callback(
        ClientsideFunction("zs", "openPair"),
        Output("where", "href", allow_duplicate=True),
        Input("compare-a", "value"),
        Input("compare-b", "value"),
        State("compare-ids", "data"),
        prevent_initial_call=True,
    )
    app.callback(
        Output("compare-accounts", "children"),
        Input("theme", "data"),
        Input("compare-ids", "data"),
    )(show_accounts)
    app.callback(
        Output("compare-owners", "children"),
        Input("theme", "data"),
        Input("compare-ids", "data"),
    )(show_owners)


def show_accounts(theme: str, ids: list[str | None]) -> Component | None:
    """Where the time of both steps went."""
    if len(ids) != len(("a", "b")) or not all(ids):
        return None
    try:
        traces = [shelf().load(str(run_id)) for run_id in ids]
    except ZerosimError as error:
        return problem(str(error))
    named = [
        (f"{mark} · {run_id}", account(trace))
        for mark, run_id, trace in zip("AB", ids, traces, strict=True)
    ]
    return drawing("fig-accounts", waterfall(named, "dark" if theme == "dark" else "light"))


def show_owners(theme: str, ids: list[str | None]) -> Component | None:
    """Which rank owns how much of the optimizer states, in both runs."""
    if len(ids) != len(("a", "b")) or not all(ids):
        return None
    try:
        runs = [
            (f"{mark} · {run_id}", shelf().load(str(run_id)))
            for mark, run_id in zip("AB", ids, strict=True)
        ]
    except ZerosimError as error:
        return problem(str(error))
    return drawing("fig-owners", owners(runs, "dark" if theme == "dark" else "light"))


def _compared(a: str, b: str, state: CompareState) -> list[Component]:
    left, right = shelf().load(a), shelf().load(b)
    result = compare(left, right)
    options = Options(align=state.align, scale=state.scale)
    runs = [RunUrl(a, a), RunUrl(b, b)]
    rows = result["residuals"]
    return [
        _tiles(a, b, result),
        timeline("pair", runs, options),
        panel(
            "Where the time of a step went",
            html.Div(id="compare-accounts", className="zs-accounts"),
            note="slowest rank, last complete step; each bar sums to its step",
        ),
        panel(
            "Who owns the optimizer states",
            html.Div(id="compare-owners", className="zs-accounts"),
            note="bytes by rank; what waits for all ranks waits for the largest",
        ),
        panel(
            "The same ops in both runs",
            table("compare-matched", _MATCHED, tables.matched(rows), label="Matched ops by kind"),
            note=_counts(result),
        ),
        panel(
            "Residuals",
            table(
                "compare-residuals",
                _RESIDUALS,
                rows[:_MOST_RESIDUALS],
                label="Differences by layer, kind and rank, largest first",
            ),
            note="largest difference first",
        ),
    ]


def _tiles(a: str, b: str, result: dict[str, Any]) -> html.Div:
    first, second = shelf().summary(a), shelf().summary(b)
    ratio = result["step_ratio"]
    return html.Div(
        [
            tile("Step, A", format_ns(first["step_ns"]), first["source"]),
            tile("Step, B", format_ns(second["step_ns"]), second["source"]),
            tile("B / A", "unknown" if ratio is None else f"{ratio:.3f}\u00d7", _faster(ratio)),
            tile("Exposed, A", format_ns(first["exposed_ns"])),
            tile("Exposed, B", format_ns(second["exposed_ns"])),
            tile("Matched ops", percent(result["matched_share"]), _counts(result)),
        ],
        className="zs-tiles",
    )


def _faster(ratio: float | None) -> str:
    if ratio is None:
        return "no complete step"
    if ratio == 1:
        return "equally long steps"
    return "A is faster" if ratio > 1 else "B is faster"


def _counts(result: dict[str, Any]) -> str:
    return (
        f"{result['matched']:,} matched, {result['only_a']:,} only A, {result['only_b']:,} only B"
    )
