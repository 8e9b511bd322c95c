"""Runs: the library and the examples; open, compare, rename, delete, and drop traces to import."""

from __future__ import annotations

from typing import Any, Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update

from zerosim.analysis.report_text import gathered
from zerosim.errors import ZerosimError
from zerosim.importers.choice import Choice
from zerosim.store import delete_run, rename_run
from zerosim.trace import Meta
from zerosim_app.components.cards import heading, page, panel
from zerosim_app.components.library import (
    buttons,
    delete_modal,
    drop_zone,
    imported,
    rename_modal,
    said,
)
from zerosim_app.components.tables import Column, size, table
from zerosim_app.intake import import_upload
from zerosim_app.jobs import jobs
from zerosim_app.shelf import Entry, shelf
from zerosim_app.uploads import uploads

_COLUMNS: Final = (
    Column("id", "Run", wide=True),
    Column("kind", "Kept in"),
    Column("source", "Source"),
    Column("world_size", "World size", "count"),
    Column("step_ns", "Step", "ns"),
    Column("exposed_ns", "Exposed", "ns"),
    Column("peak_bytes", "Peak memory", "bytes"),
    Column("quality", "Quality", wide=True),
)
_POLL_MS: Final = 400
_PAIR: Final = 2
Row = dict[str, Any]


def layout(**_query: Any) -> html.Div:  # noqa: ANN401 - Dash hands in whatever the address says
    """The page; its table is filled once it stands."""
    return page(
        heading("Runs", "Your library, with the examples beside it. Tick two to compare them."),
        panel(
            None,
            html.Div(buttons(), className="zs-row zs-actions"),
            table(
                "runs-table",
                _COLUMNS,
                [],
                label="Runs",
                options={"rowSelection": {"mode": "multiRow", "enableClickSelection": True}},
                getRowId="params.data.id",
            ),
            said("runs-said"),
        ),
        panel("Import a profile", *drop_zone(uploads().max_bytes)),
        rename_modal(),
        delete_modal(),
        dcc.Store(id="runs-changed", data=0),
        dcc.Store(id="runs-upload"),
        dcc.Store(id="runs-job"),
        dcc.Interval(id="runs-tick", interval=_POLL_MS, disabled=True),
    )


def register(app: Dash) -> None:
    """Put the page at `/runs`."""
    dash.register_page("zerosim_app.runs", path="/runs", title="Runs · zerosim", layout=layout)
    ticked = State("runs-table", "selectedRows")
    app.callback(
        Output("runs-table", "rowData"),
        Output("runs-table", "style"),
        Input("runs-changed", "data"),
    )(shown)
    app.callback(
        Output("runs-open", "disabled"),
        Output("runs-compare", "disabled"),
        Output("runs-rename", "disabled"),
        Output("runs-delete", "disabled"),
        Input("runs-table", "selectedRows"),
    )(allowed)
    app.clientside_callback(
        ClientsideFunction("zs", "openTicked"),
        Output("where", "href", allow_duplicate=True),
        Input("runs-open", "n_clicks"),
        Input("runs-compare", "n_clicks"),
        ticked,
        prevent_initial_call=True,
    )
    _register_changes(app, ticked)
    _register_import(app)


def _register_changes(app: Dash, ticked: State) -> None:
    for button, modal in (("runs-rename", "rename-modal"), ("runs-delete", "delete-modal")):
        app.clientside_callback(
            "function () { return true; }",
            Output(modal, "opened"),
            Input(button, "n_clicks"),
            prevent_initial_call=True,
        )
    app.callback(Output("delete-what", "children"), Input("runs-table", "selectedRows"))(what)
    changed = (
        Output("runs-changed", "data", allow_duplicate=True),
        Output("runs-said", "children", allow_duplicate=True),
    )
    app.callback(
        *changed,
        Output("rename-modal", "opened", allow_duplicate=True),
        Input("rename-yes", "n_clicks"),
        State("rename-to", "value"),
        State("runs-changed", "data"),
        ticked,
        prevent_initial_call=True,
    )(rename)
    app.callback(
        *changed,
        Output("delete-modal", "opened", allow_duplicate=True),
        Input("delete-yes", "n_clicks"),
        State("runs-changed", "data"),
        ticked,
        prevent_initial_call=True,
    )(delete)


def _register_import(app: Dash) -> None:
    app.callback(
        Output("runs-job", "data"),
        Output("runs-tick", "disabled"),
        Input("runs-upload", "data"),
        State("runs-name", "value"),
        State("runs-salvage", "checked"),
        prevent_initial_call=True,
    )(take)
    app.callback(
        Output("runs-progress", "children"),
        Output("runs-tick", "disabled", allow_duplicate=True),
        Output("runs-changed", "data", allow_duplicate=True),
        Input("runs-tick", "n_intervals"),
        State("runs-job", "data"),
        State("runs-changed", "data"),
        prevent_initial_call=True,
    )(progress)


def shown(_changed: int) -> tuple[list[Row], dict[str, str]]:
    """The table and its height: a row a run, the user's first; an unreadable run says why."""
    rows = [_row(entry) for entry in shelf().entries()]
    return rows, size(len(rows))


def _row(entry: Entry) -> Row:
    kept = "examples" if entry.is_example else "library"
    base = {"id": entry.id, "kind": kept, "quality": entry.stored.problem}
    if entry.meta is None:
        return base
    try:
        summary = shelf().summary(entry.id)
    except ZerosimError as error:
        return base | {"quality": str(error)}
    fields = ("source", "world_size", "step_ns", "exposed_ns", "peak_bytes")
    of_files = max(len(summary["ranks"]), len(entry.meta.quality.ranks))
    there = of_files if summary["source"] == "imported" else None
    return base | {f: summary[f] for f in fields} | {"quality": _quality(entry.meta, there)}


def _quality(meta: Meta, n_ranks: int | None) -> str:
    """What is amiss in a few words; `n_ranks` are there (None: all)."""
    n = len(gathered(meta.quality.warnings))
    notes = [] if meta.finished else ["unfinished"]
    if n_ranks is not None and meta.world_size is not None and n_ranks < meta.world_size:
        notes.append(f"{n_ranks} of {meta.world_size} ranks")
    notes += [] if meta.clock.aligned else ["clocks not aligned"]
    notes += [f"{n} warning{'' if n == 1 else 's'}"] if n else []
    return ", ".join(notes) or "good"


def allowed(ticked: list[Row] | None) -> tuple[bool, bool, bool, bool]:
    """Which of open, compare, rename, delete are off for the ticked rows; examples stay as they are."""
    chosen = ticked or []
    own = bool(chosen) and all(row["kind"] == "library" for row in chosen)
    one, pair = len(chosen) == 1, len(chosen) == _PAIR
    return not one, not pair, not (one and own), not own


def what(ticked: list[Row] | None) -> str:
    """What a click on Delete would delete."""
    return ", ".join(row["id"] for row in ticked or [])


def rename(
    _clicks: int, to: str | None, changed: int, ticked: list[Row] | None
) -> tuple[Any, str, Any]:
    """Rename the ticked run of the library."""
    if not ticked:
        return no_update, "Tick a run first.", False
    try:
        new = rename_run(shelf().own_path(ticked[0]["id"]), (to or "").strip())
    except ZerosimError as error:
        return no_update, str(error), False
    return changed + 1, f"'{ticked[0]['id']}' is now called '{new.name}'.", False


def delete(_clicks: int, changed: int, ticked: list[Row] | None) -> tuple[Any, str, Any]:
    """Delete the ticked runs of the library."""
    gone: list[str] = []
    try:
        for row in ticked or []:
            delete_run(shelf().own_path(row["id"]))
            gone.append(row["id"])
    except ZerosimError as error:
        return changed + 1, str(error), False
    return changed + 1, f"Deleted: {', '.join(gone)}.", False


def take(
    upload_id: str | None, name: str | None, salvage: bool | None
) -> tuple[str | Any, bool | Any]:
    """Start importing what was sent."""
    if not upload_id:
        return no_update, no_update
    sent, library, choice = uploads(), shelf().library, Choice(salvage=bool(salvage))
    return (
        jobs().start(
            lambda report: import_upload(sent, upload_id, name or "", library, report, choice)
        ),
        False,
    )


def progress(
    _ticks: int, job_id: str | None, changed: int
) -> tuple[html.Span | html.Div | Any, bool | Any, int | Any]:
    """How far the import is; once it is over, the table is read anew."""
    if job_id is None:
        return no_update, True, no_update
    job = jobs().get(job_id)
    if job.status == "running":
        return html.Span([dmc.Loader(size="xs"), f" {job.said} …"]), no_update, no_update
    if job.status == "failed":
        return html.Span(job.said, className="zs-failed"), True, no_update
    return imported(job.said, shelf().load(job.said)), True, changed + 1
