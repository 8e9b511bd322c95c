"""Simulate: a scenario as a form, every knob of its schedule with default and unit, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import dash
import dash_mantine_components as dmc
from dash import ALL, ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from zerosim.errors import ZerosimError
from zerosim.figures.palette import Theme
from zerosim.hardware import MACHINES
from zerosim.memory.conventions import CONVENTIONS
from zerosim.scenario import PRESETS, Scenario, load_scenario
from zerosim.scenario.codec import SECTIONS
from zerosim.scenario.sections import ATTENTIONS, CHECKPOINTING
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knobs
from zerosim.units import DTYPE_BYTES
from zerosim_app.components.attributes import wild
from zerosim_app.components.cards import heading, page, panel, problem
from zerosim_app.components.controls import CONTROL, Field, control, text_of
from zerosim_app.components.preview import VIEWS, preview
from zerosim_app.intake import keep
from zerosim_app.shelf import shelf
from zerosim_app.urlstate import ExploreState, SimulateState, address, decode

FIRST: Final = "lesson-zero3"
_LEAD: Final = (
    "Choose a schedule, turn its knobs, and see what comes of it. Knobs have the engine's own names "
    "and defaults; keep what you like as a run."
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A field of the scenario's other sections that the form has: where, what it means, its choices."""

    path: str
    says: str
    unit: str = ""
    choices: tuple[Any, ...] = ()


FIELDS: Final = (
    Shown("workload.layers", "layers, or blocks of a transformer", "layers"),
    Shown("workload.hidden", "width of a layer", "elements"),
    Shown("workload.seq", "tokens of a sequence", "tokens"),
    Shown("workload.micro_batch", "sequences of a rank and micro-batch", "sequences"),
    Shown("workload.micro_batches", "micro-batches of a step (gradient accumulation)"),
    Shown("workload.checkpointing", "activation checkpointing", choices=CHECKPOINTING),
    Shown("workload.attention", "whether attention keeps its scores", choices=ATTENTIONS),
    Shown("cluster.name", "the machine", choices=tuple(MACHINES)),
    Shown("cluster.world_size", "ranks that share the model", "ranks"),
    Shown(
        "numerics.convention",
        "byte convention; sets dtypes and optimizer, which override it",
        choices=tuple(CONVENTIONS),
    ),
    Shown("numerics.dtype", "parameters as they compute", choices=tuple(DTYPE_BYTES)[:4]),
    Shown("numerics.storage_dtype", "parameters as they are stored; none: as they compute"),
    Shown("numerics.reduce_dtype", "gradients as they are reduced; none: as they are made"),
    Shown("numerics.optimizer", "optimizer, with a float32 master copy of 16-bit parameters"),
    Shown("run.allocator", "whether reserved memory is followed", choices=("caching",)),
    Shown("run.steps", "training steps; engines warm up in the first", "steps"),
)


def layout(**query: Any) -> html.Div:  # noqa: ANN401 - Dash hands in whatever the address says
    """The page of the scenario that the address names."""
    state = decode(SimulateState, query)
    preset = state.preset if state.preset is not None and state.preset in PRESETS else FIRST
    try:
        scenario, wrong = load_scenario(preset, (state.set or "").split()), None
    except ZerosimError as error:
        scenario, wrong = load_scenario(preset), problem(str(error))
    return page(
        html.Div([heading("Simulate", _LEAD), _keep()], className="zs-head"),
        wrong,
        html.Div(
            [
                html.Div([_choice(preset, scenario), _knobs(scenario), _rest(scenario)],
                         className="zs-stack zs-form"),
                html.Section(
                    [
                        dmc.SegmentedControl(
                            id="sim-view",
                            data=[{"value": k, "label": v} for k, v in VIEWS.items()],
                            value=state.view,
                            **wild({"aria-label": "What to show"}),
                        ),
                        html.Div(id="sim-preview", className="zs-stack zs-tab"),
                    ],
                    className="zs-panel",
                ),
            ],
            className="zs-simulate",
        ),
        dcc.Store(id="sim-words"),
        dcc.Store(id="sim-start", data=[preset, scenario.schedule.name]),
    )  # fmt: skip


def register(app: Dash) -> None:
    """Put the page at `/simulate`."""
    dash.register_page(
        "zerosim_app.simulate", path="/simulate", title="Simulate · zerosim", layout=layout
    )
    app.callback(
        Output("sim-words", "data"),
        Input({"type": CONTROL, "path": ALL}, "value"),
        State({"type": CONTROL, "path": ALL}, "id"),
        State("sim-start", "data"),
    )(collect)
    app.callback(
        Output("sim-preview", "children"),
        Input("sim-words", "data"),
        Input("sim-view", "value"),
        Input("theme", "data"),
        State("sim-start", "data"),
    )(show)
    app.callback(
        Output("where", "href", allow_duplicate=True),
        Output("sim-said", "children"),
        Input("sim-keep", "n_clicks"),
        State("sim-name", "value"),
        State("sim-words", "data"),
        State("sim-start", "data"),
        prevent_initial_call=True,
    )(keep_run)
    app.clientside_callback(
        ClientsideFunction("zs", "keepScenario"),
        Output("sim-view", "data-kept"),
        Input("sim-words", "data"),
        Input("sim-view", "value"),
        State("sim-start", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("zs", "openScenario"),
        Output("where", "href", allow_duplicate=True),
        Input("sim-preset", "value"),
        Input("sim-schedule", "value"),
        State("sim-words", "data"),
        State("sim-start", "data"),
        prevent_initial_call=True,
    )


def collect(values: list[str | None], ids: list[dict[str, str]], start: list[str]) -> list[str]:
    """The `--set` words of what the form says, without what the preset says anyway."""
    preset, schedule = start
    words = _picked(preset, schedule)
    base = load_scenario(preset, words).to_dict()
    for id_, value in zip(ids, values, strict=True):
        section, _, name = id_["path"].partition(".")
        text = (value or "").strip()
        if text != text_of(base[section].get(name)):
            words.append(f"{id_['path']}={text or 'none'}")
    return words


def show(words: list[str], view: str, theme: str, start: list[str]) -> list[Component]:
    """What comes of the scenario: figures and the view that is open."""
    colours: Theme = "dark" if theme == "dark" else "light"
    try:
        return preview(load_scenario(start[0], words), view, colours)
    except ZerosimError as error:
        return [problem(str(error))]


def keep_run(
    clicks: int | None, name: str | None, words: list[str], start: list[str]
) -> tuple[Any, Any]:
    """Store the scenario's run in the library and open it."""
    if not clicks:
        return no_update, no_update
    try:
        run_id = keep(load_scenario(start[0], words), name or "", shelf().library)
    except ZerosimError as error:
        return no_update, str(error)
    return address("/explore", ExploreState(run=run_id)), ""


def _picked(preset: str, schedule: str) -> list[str]:
    same = load_scenario(preset).schedule.name == schedule
    return [] if same else [f"schedule={schedule}"]


def _keep() -> html.Div:
    return html.Div(
        [
            dmc.TextInput(
                id="sim-name", placeholder="name of the run", size="sm",
                **wild({"aria-label": "Name of the run"}),
            ),
            dmc.Button("Keep as a run", id="sim-keep", size="sm"),
            html.Span(id="sim-said", className="zs-failed", role="status"),
        ],
        className="zs-row",
    )  # fmt: skip


def _choice(preset: str, scenario: Scenario) -> html.Section:
    schedule = scenario.schedule.name
    return panel(
        "Scenario",
        html.Div(
            [
                dmc.Select(
                    id="sim-preset", label="Start from", data=list(PRESETS), value=preset,
                    searchable=True, allowDeselect=False,
                ),
                dmc.Select(
                    id="sim-schedule", label="Schedule", data=list(SCHEDULES), value=schedule,
                    searchable=True, allowDeselect=False, maxDropdownHeight=420,
                ),
            ],
            className="zs-two",
        ),
        html.P(f"{schedule}: {SCHEDULES[schedule].summary}.", className="zs-note"),
    )  # fmt: skip


def _knobs(scenario: Scenario) -> html.Section:
    """The knobs of the scenario's schedule."""
    section = scenario.schedule
    given = SCHEDULES[section.name].options(**section.options)
    found = knobs(SCHEDULES[section.name].options)
    rows = [
        control(
            Field(
                f"schedule.{knob.name}",
                knob.says,
                knob.default,
                getattr(given, knob.name),
                knob.unit,
                knob.kinds,
                knob.choices,
            )
        )
        for knob in found
    ]
    return panel("Knobs of the schedule", *rows, note=f"{len(found)} of {section.name}")


def _rest(scenario: Scenario) -> html.Section:
    """The fields of model, machine, numerics and run that are turned most."""
    record = scenario.to_dict()
    rows = []
    for shown in FIELDS:
        section, _, name = shown.path.partition(".")
        default = next(f.default for f in fields(SECTIONS[section]) if f.name == name)
        value = record[section].get(name)
        rows.append(
            control(Field(shown.path, shown.says, default, value, shown.unit, (), shown.choices))
        )
    return panel("Model, machine and numerics", *rows)
