"""Explore: one run on the timeline, its figures, and tabs that answer one question each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from zerosim.analysis.accounting import account
from zerosim.errors import ZerosimError
from zerosim.figures import balance, buckets, memory, tables
from zerosim.figures.palette import Theme
from zerosim.figures.waterfall import explain, waterfall
from zerosim.trace import Trace
from zerosim_app.components import facts, selection
from zerosim_app.components.cards import drawing, empty, page, problem
from zerosim_app.components.runs import run_select
from zerosim_app.components.tables import Column, table
from zerosim_app.components.timeline import RunUrl, timeline
from zerosim_app.shelf import shelf
from zerosim_app.urlstate import ExploreState, Tab, decode

TABS: Final[dict[Tab, str]] = {
    "selection": "Selection",
    "balance": "Load balance",
    "memory": "Memory",
    "communication": "Communication",
    "buckets": "Buckets",
    "operations": "Operations",
    "run": "Run",
}
_COLLECTIVES: Final = (
    Column("kind", "Collective", "kind", wide=True),
    Column("dtype", "Dtype"),
    Column("group", "Group"),
    Column("ranks", "Ranks", "count"),
    Column("count", "Count", "count"),
    Column("nbytes", "Full tensors", "bytes"),
    Column("wire_bytes", "Sent", "bytes", tip="Bytes that this rank put on the wire"),
    Column("transfer_ns", "Transferring", "ns", tip="From the last arrival to the end"),
    Column("waited_ns", "Waiting", "ns", tip="From this rank's arrival to the last one's"),
    Column("busbw", "Bus bandwidth", "rate", tip="Sent bytes by transfer time"),
)
_OPERATIONS: Final = (
    Column("name", "Op", wide=True),
    Column("kind", "Kind", "kind"),
    Column("stream", "Stream", "kind"),
    Column("step", "Step", "count"),
    Column("start_ns", "Start", "ns"),
    Column("took_ns", "Took", "ns"),
    Column("waited_ns", "Waited", "ns"),
    Column("nbytes", "Full tensor", "bytes"),
    Column("wire_bytes", "Sent", "bytes"),
    Column("dtype", "Dtype"),
)


def layout(**query: Any) -> html.Div:  # noqa: ANN401 - Dash hands in whatever the address says
    """The page of the run that the address names; without one, an invitation to choose."""
    state = decode(ExploreState, query)
    chooser = html.Div(
        [
            html.H1("Explore", className="zs-h1"),
            run_select("explore-run", state.run),
            dcc.Store(id="explore-id", data=state.run),
        ],
        className="zs-head",
    )
    if state.run is None:
        return page(chooser, empty("Choose a run above, or start with the example ",
                                   dcc.Link("lesson-zero3", href="/explore?run=lesson-zero3"), "."))  # fmt: skip
    try:
        trace, summary = shelf().load(state.run), shelf().summary(state.run)
    except ZerosimError as error:
        return page(chooser, problem(str(error)))
    found = account(trace)
    why = f"Why is it not faster? Rank {found.rank}: {explain(found)}" if found else _bare(trace)
    return page(
        chooser,
        facts.tiles(summary, trace.meta.scenario),
        html.P(why, className="zs-why") if why else None,
        timeline("tl", [RunUrl(state.run, state.run)]),
        _tabs(state),
    )


def _bare(trace: Trace) -> str | None:
    """Why the timeline of a run is empty, if it is."""
    if not trace.spans.height:
        return "There are no ops in this run: what its files say stands under Run."
    if not (trace.spans["end_ns"] > trace.spans["start_ns"]).any():
        return "Nobody knows how long an op of this run took: they stand in order under Operations."
    return None


def _tabs(state: ExploreState) -> html.Section:
    return html.Section(
        [
            dmc.Tabs(
                dmc.TabsList([dmc.TabsTab(title, value=tab) for tab, title in TABS.items()]),
                id="explore-tabs",
                value=state.tab,
            ),
            html.Div(id="explore-tab", className="zs-tab"),
            dcc.Store(id="explore-sel"),
        ],
        className="zs-panel",
    )


def register(app: Dash) -> None:
    """Put the page at `/explore` with its tabs; the timeline keeps its own view in the address."""
    dash.register_page(
        "zerosim_app.explore", path="/explore", title="Explore · zerosim", layout=layout
    )
    app.callback(
        Output("explore-tab", "children"),
        Input("explore-tabs", "value"),
        Input("theme", "data"),
        Input("explore-sel", "data"),
        State("tl-sel", "data"),
        State("explore-id", "data"),
    )(show_tab)
    # A new selection concerns its own tab only; the others would be drawn again for nothing.
    app.clientside_callback(
        ClientsideFunction("zs", "selectionShown"),
        Output("explore-sel", "data"),
        Input("tl-sel", "data"),
        Input("explore-tabs", "value"),
    )
    app.clientside_callback(
        ClientsideFunction("zs", "keepTab"),
        Output("explore-tabs", "data-kept"),
        Input("explore-tabs", "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("zs", "openRun"),
        Output("where", "href", allow_duplicate=True),
        Input("explore-run", "value"),
        State("explore-id", "data"),
        prevent_initial_call=True,
    )


def show_tab(
    tab: str, theme: str, _news: object, selected: dict[str, Any] | None, run_id: str | None
) -> list[Component] | Any:  # noqa: ANN401 - or no_update
    """The open tab's content, for what is selected now."""
    if run_id is None:
        return no_update
    try:
        trace = shelf().load(run_id)
        return _CONTENT.get(tab, _selection)(
            trace, "dark" if theme == "dark" else "light", selected
        )
    except ZerosimError as error:
        return [problem(str(error))]


def _selection(trace: Trace, theme: Theme, selected: dict[str, Any] | None) -> list[Component]:
    match selected:
        case {"type": "span", "span": int(index)}:
            return selection.span(trace, index)
        case {"type": "area", "runs": [{"t0_ns": int(start), "t1_ns": int(end)}, *_]}:
            return selection.area(trace, start, end)
    found = account(trace)
    none = html.P("No complete step is known, so there is none to account for.")
    return [
        drawing("fig-step", waterfall([("one step", found)], theme)) if found else none,
        html.P(
            "Click a span to see its times and its partners on the other ranks; drag with Shift, or "
            "on the ruler, to measure an area.",
            className="zs-note",
        ),
    ]


def _balance(trace: Trace, theme: Theme, _: dict[str, Any] | None) -> list[Component]:
    return [
        html.Div(
            [
                drawing("fig-states", balance.states(trace, theme)),
                drawing("fig-busy", balance.busy(trace, theme)),
            ],
            className="zs-two",
        )
    ]


def _memory(trace: Trace, theme: Theme, selected: dict[str, Any] | None) -> list[Component]:
    return [drawing("fig-memory", memory.memory(trace, _rank(trace, selected), theme))]


def _communication(trace: Trace, _: Theme, selected: dict[str, Any] | None) -> list[Component]:
    rank = _rank(trace, selected)
    rows = tables.collectives(trace, rank)
    return [
        html.P(f"What rank {rank} communicated in the whole run.", className="zs-note"),
        table("tab-collectives", _COLLECTIVES, rows, label=f"Collectives of rank {rank}"),
    ]


def _buckets(trace: Trace, theme: Theme, selected: dict[str, Any] | None) -> list[Component]:
    return [drawing("fig-buckets", buckets.buckets(trace, _rank(trace, selected), theme))]


def _operations(trace: Trace, _: Theme, selected: dict[str, Any] | None) -> list[Component]:
    rank = _rank(trace, selected)
    rows = tables.operations(trace, rank)
    cut = f", the first {tables.MAX_OPS:,}" if len(rows) == tables.MAX_OPS else ""
    return [
        html.P(f"The ops of rank {rank} in issue order{cut}.", className="zs-note"),
        table("tab-operations", _OPERATIONS, rows, label=f"Ops of rank {rank}", max_rows=16),
    ]


def _run(trace: Trace, _: Theme, __: dict[str, Any] | None) -> list[Component]:
    return [facts.about(trace)]


def _rank(trace: Trace, selected: dict[str, Any] | None) -> int:
    """The selected span's rank if it has rows of its own, else the first rank."""
    rank = (selected or {}).get("rank")
    if isinstance(rank, int) and rank in trace.ranks:
        return rank
    return trace.ranks[0] if trace.ranks else 0


_CONTENT: Final[dict[str, Callable[[Trace, Theme, dict[str, Any] | None], list[Component]]]] = {
    "selection": _selection,
    "balance": _balance,
    "memory": _memory,
    "communication": _communication,
    "buckets": _buckets,
    "operations": _operations,
    "run": _run,
}
