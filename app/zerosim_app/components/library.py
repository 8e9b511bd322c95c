"""What one may do with the library: its buttons, the questions they ask, the zone for dropping files."""

from __future__ import annotations

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from zerosim.trace import Trace
from zerosim.units import format_bytes
from zerosim_app.components.attributes import wild
from zerosim_app.components.facts import quality
from zerosim_app.intake import SALVAGE


def buttons() -> list[dmc.Button]:
    """What can be done with the ticked runs; all off while none is ticked."""
    return [
        dmc.Button("Open", id="runs-open", disabled=True),
        dmc.Button("Compare", id="runs-compare", variant="default", disabled=True),
        dmc.Button("Rename", id="runs-rename", variant="default", disabled=True),
        dmc.Button("Delete", id="runs-delete", variant="default", disabled=True),
    ]


def said(id_: str) -> html.Div:
    """A line that says how something went; screen readers hear it."""
    return html.Div(id=id_, className="zs-said", role="status", **wild({"aria-live": "polite"}))


def drop_zone(max_bytes: int) -> list[Component]:
    """Where files are dropped, what the run shall be called, and how sending and importing go.

    The field that takes files is put into the zone by the browser (41_zs_drop.mjs), as Dash has none.
    """
    zone = html.Label(
        html.Div(
            [
                html.B("Drop trace files or a folder here, or click to choose"),
                html.Span(
                    "Profiles of torch (Kineto), Nsight Systems (SQLite), flight recorder dumps, "
                    "execution traces, Chakra, logs of NCCL and DeepSpeed; one file a rank, or an "
                    f"archive of them; up to {format_bytes(max_bytes)} each."
                ),
            ]
        ),
        id="runs-drop",
        className="zs-drop",
    )
    name = dmc.TextInput(id="runs-name", label="Name of the run", placeholder="from the first file")
    salvage = dmc.Checkbox(id="runs-salvage", label=SALVAGE, radius="sm")
    sending = [
        html.Progress(id="runs-bar", value="0", max="100", **wild({"aria-label": "Sent"})),
        dmc.Button("Cancel", id="runs-cancel", variant="default", size="compact-sm"),
    ]
    return [
        html.Div(
            [zone, html.Div([name, salvage], className="zs-import-how")], className="zs-import"
        ),
        said("runs-sent"),
        html.Div(sending, id="runs-sending", className="zs-sending", hidden=True),
        said("runs-progress"),
    ]


def imported(run_id: str, trace: Trace) -> html.Div:
    """An import that is over: what there is to know of its quality, and the way to the run."""
    link = dcc.Link("Open it", href=f"/explore?run={run_id}", className="zs-open")
    return html.Div(
        [
            html.P([f"Imported as '{run_id}'. ", link]),
            html.H3("What the files say, and what they do not", className="zs-h3"),
            quality(trace),
        ]
    )


def rename_modal() -> dmc.Modal:
    """Asks for the new name."""
    return dmc.Modal(
        [
            dmc.TextInput(id="rename-to", label="New name"),
            html.Div(dmc.Button("Rename", id="rename-yes"), className="zs-modal-foot"),
        ],
        id="rename-modal",
        title="Rename the run",
        centered=True,
        opened=False,
    )


def delete_modal() -> dmc.Modal:
    """Asks whether to delete, and names what would go."""
    return dmc.Modal(
        [
            html.P(id="delete-what"),
            html.Div(dmc.Button("Delete", id="delete-yes", color="red"), className="zs-modal-foot"),
        ],
        id="delete-modal",
        title="Delete for good?",
        centered=True,
        opened=False,
    )
