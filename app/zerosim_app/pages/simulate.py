"""Simulate: a scenario as a form, every knob of its schedule with default and unit, and what comes of it."""

from __future__ import annotations

from typing import Any, Final

import dash
import dash_mantine_components as dmc
from dash import ALL, MATCH, ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from zerosim.errors import ZerosimError
from zerosim.figures.palette import Theme
from zerosim.scenario import PRESETS
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knobs
from zerosim_app.asked import scenario_asked
from zerosim_app.components.attributes import wild
from zerosim_app.components.cards import heading, page, problem
from zerosim_app.components.controls import CONTROL, ROW, UNIT, plain, text_of
from zerosim_app.components.preview import SHOWN, VIEWS, preview
from zerosim_app.components.scenario_form import choice, knobs_of, rest
from zerosim_app.intake import keep
from zerosim_app.shelf import shelf
from zerosim_app.urlstate import ExploreState, Shown, SimulateState, View, address, decode

FIRST: Final = "lesson-zero3"
_UNSPACED: Final = ("run.stragglers", "run.slow_links")
"""Lists, which are words of an address only without spaces."""
_LEAD: Final = (
    "Choose a schedule, turn its knobs, and see what comes of it. Knobs have the engine's own names "
    "and defaults; keep what you like as a run."
)


def layout(**query: Any) -> html.Div:  # noqa: ANN401 - Dash hands in whatever the address says
    """The page of the scenario that the address names."""
    state = decode(SimulateState, query)
    preset = state.preset if state.preset is not None and state.preset in PRESETS else FIRST
    words = (state.set or "").split()
    try:
        scenario, wrong = scenario_asked(preset, words), None
    except ZerosimError as error:
        scenario, wrong = scenario_asked(preset, _sound(preset, words)), problem(str(error))
    return page(
        html.Div([heading("Simulate", _LEAD), _keep()], className="zs-head"),
        wrong,
        html.Div(
            [
                html.Div([choice(preset, scenario), knobs_of(scenario), rest(scenario)],
                         className="zs-stack zs-form"),
                html.Section(
                    [
                        _views(state),
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


def _sound(preset: str, words: list[str]) -> list[str]:
    """The words that make sense, so that one that does not costs no other."""
    sound: list[str] = []
    for word in words:
        try:
            scenario_asked(preset, [*sound, word])
        except ZerosimError:
            continue
        sound.append(word)
    return sound


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
        Input("sim-shown", "value"),
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
        Input("sim-shown", "value"),
        State("sim-start", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("zs", "fieldTold"),
        Output({"type": UNIT, "path": MATCH}, "children"),
        Output({"type": ROW, "path": MATCH}, "className"),
        Input({"type": CONTROL, "path": MATCH}, "value"),
        State({"type": UNIT, "path": MATCH}, "data-unit"),
        State({"type": ROW, "path": MATCH}, "data-default"),
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
    base = scenario_asked(preset, words).to_dict()
    texts = {f"schedule.{k.name}" for k in knobs(SCHEDULES[schedule].options) if str in k.kinds}
    texts.add("workload.sizes")
    for id_, value in zip(ids, values, strict=True):
        section, _, name = id_["path"].partition(".")
        text = (value or "").strip()
        text = text if id_["path"] in texts else plain(text)
        text = text.replace(" ", "") if id_["path"] in _UNSPACED else text
        if text != text_of(base[section].get(name)):
            words.append(f"{id_['path']}={text or 'none'}")
    return words


def show(
    words: list[str], view: View, shown: Shown, theme: str, start: list[str]
) -> list[Component]:
    """What comes of the scenario: figures and the view that is open, of the steps that are shown."""
    colours: Theme = "dark" if theme == "dark" else "light"

    def longer(steps: int) -> str:
        kept = [word for word in words if not word.startswith("run.steps=")]
        more = " ".join([*kept, f"run.steps={steps}"])
        return address("/simulate", SimulateState(start[0], more, view, shown))

    try:
        return preview(scenario_asked(start[0], words), view, colours, shown, longer)
    except ZerosimError as error:
        return [problem(str(error))]


def keep_run(
    clicks: int | None, name: str | None, words: list[str], start: list[str]
) -> tuple[Any, Any]:
    """Store the scenario's run in the library and open it."""
    if not clicks:
        return no_update, no_update
    try:
        run_id = keep(scenario_asked(start[0], words), name or "", shelf().library)
    except ZerosimError as error:
        return no_update, str(error)
    return address("/explore", ExploreState(run=run_id)), ""


def _picked(preset: str, schedule: str) -> list[str]:
    same = scenario_asked(preset, ()).schedule.name == schedule
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


def _views(state: SimulateState) -> html.Div:
    """What to show of which step."""
    return html.Div(
        [
            dmc.SegmentedControl(
                id="sim-view",
                data=[{"value": k, "label": v} for k, v in VIEWS.items()],
                value=state.view,
                **wild({"aria-label": "What to show"}),
            ),
            dmc.SegmentedControl(
                id="sim-shown",
                data=[{"value": k, "label": v} for k, v in SHOWN.items()],
                value=state.shown,
                size="xs",
                **wild({"aria-label": "Of which step"}),
            ),
        ],
        className="zs-row",
    )
