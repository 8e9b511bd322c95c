"""Learn: a step of ZeRO told op by op; the states come from the plan and its simulated run."""

from __future__ import annotations

from typing import Any, Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from zerosim.errors import ZerosimError
from zerosim.lessons import LESSONS, Lesson, lesson
from zerosim.lessons.volume import Volume
from zerosim.units import format_bytes
from zerosim_app.components import lesson as parts
from zerosim_app.components.attributes import wild
from zerosim_app.components.cards import page, panel, problem
from zerosim_app.urlstate import LearnState, decode

DEFAULT: Final = "zero3"


def layout(name: str | None = None, **query: Any) -> html.Div:  # noqa: ANN401 - Dash's query
    """The page of one lesson; its states are all in it, at the step that the address names."""
    try:
        told = lesson(name or DEFAULT)
    except ZerosimError as error:
        return page(problem(str(error)), _lessons(None))
    step = max(0, min(decode(LearnState, query).step, len(told.states) - 1))
    return page(
        html.Div(
            [html.H1(_title(told), className="zs-h1"), _lessons(told.name)], className="zs-head"
        ),
        html.P(told.outline.idea, className="zs-lead"),
        _stage(told, step),
        panel("When it runs", parts.schedule(told, step), note="one rank, to scale; click an op"),
        html.Div([_volume(told.volume), _questions(told)], className="zs-two"),
        parts.store(told),
    )


def register(app: Dash) -> None:
    """Put the page at `/learn/<lesson>`; stepping is done in the browser (assets/40_learn.js)."""
    dash.register_page(
        "zerosim_app.learn",
        path="/learn/zero3",
        path_template="/learn/<name>",
        title="Learn · zerosim",
        layout=layout,
    )
    app.clientside_callback(
        ClientsideFunction("zsLearn", "mount"),
        Output("lesson", "data-mounted"),
        Input("lesson-states", "data"),
        State("where", "search"),
    )


def _title(told: Lesson) -> str:
    return f"{told.outline.title}, step by step"


def _lessons(current: str | None) -> html.Nav:
    return html.Nav(
        [
            dcc.Link(
                LESSONS[name].title,
                href=f"/learn/{name}",
                className="zs-nav zs-here" if name == current else "zs-nav",
            )
            for name in LESSONS
        ],
        className="zs-navs",
        **wild({"aria-label": "Lessons"}),
    )


def _stage(told: Lesson, step: int) -> html.Section:
    state = told.states[step]
    return html.Section(
        [
            html.Div([parts.chips(told, step), parts.controls(told, step)], className="zs-stage-head"),
            parts.strip(told, step),
            html.Div(
                [
                    html.P(state.sentence, id="lesson-sentence"),
                    html.P(parts.meanwhile(state), id="lesson-meanwhile", className="zs-note"),
                ],
                className="zs-sentence",
                **wild({"aria-live": "polite"}),
            ),
            parts.cards(told, step),
            parts.legend(told, step),
            html.P(
                [
                    dmc.Kbd("←"), " ", dmc.Kbd("→"), " step, ", dmc.Kbd("Space"), " plays, ",
                    dmc.Kbd("Home"), " ", dmc.Kbd("End"), " jump. Each cell is one layer, cut into the parts that the GPUs own; its own part is marked.",
                ],
                className="zs-note zs-keys-line",
            ),
        ],
        id="lesson",
        className="zs-panel zs-stage",
    )  # fmt: skip


def _volume(sent: Volume) -> html.Section:
    last = f" \u2212 {sent.last_elements:,}" if sent.last_elements else ""
    times = "3 \u00d7 " if sent.formula.startswith(("3", "(3")) else "2 \u00d7 "
    measured = format_bytes(sent.sent_bytes)
    return panel(
        "Bytes sent a rank and step",
        html.P(_symbols(sent), className="zs-formula"),
        html.P(
            f"({times}{sent.n_elements:,}{last}) \u00d7 {sent.n_ranks - 1}/{sent.n_ranks} \u00d7 "
            f"{sent.element_bytes} B = {sent.closed_bytes:,} B",
            className="zs-filled",
        ),
        html.P(
            f"The simulated run sent {measured}"
            + (", exactly that." if sent.sent_bytes == sent.closed_bytes else "."),
        ),
        html.P(_why(sent), className="zs-note"),
    )


def _symbols(sent: Volume) -> list[Any]:
    psi, n = html.I("Ψ"), html.I("N")
    if sent.last_elements:
        return ["(3", psi, " \u2212 ", html.I("P"), html.Sub("last"), ") (", n, " \u2212 1) / ", n]
    return [sent.formula[0], psi, " (", n, " \u2212 1) / ", n]


def _why(sent: Volume) -> str:
    if sent.last_elements:
        return (
            "One Ψ each for the gathers of the forward, the gathers of the backward and the "
            "reduce-scatters; the last layer is kept after its forward, so it is gathered only once."
        )
    return "One Ψ to sum the gradients and one to spread the result; Ψ are all parameters."


def _questions(told: Lesson) -> html.Section:
    return panel(
        "Check yourself",
        dmc.Accordion(
            [
                dmc.AccordionItem(
                    [
                        dmc.AccordionControl(question.ask),
                        dmc.AccordionPanel(
                            [
                                html.P(question.answer),
                                html.Ul([html.Li(line) for line in question.evidence]),
                            ]
                        ),
                    ],
                    value=str(i),
                )
                for i, question in enumerate(told.questions)
            ],
            variant="default",
            chevronPosition="left",
        ),
        note="answered by the simulated runs",
    )
