"""The lesson's parts: op strip, GPU cards, memory bars, the step's schedule; stepped in the browser."""

from __future__ import annotations

from typing import Any, Final

from dash import dcc, html
from dash.development.base_component import Component

from zerosim.figures.palette import MEMORY, ROLE
from zerosim.kinds import Kind
from zerosim.lessons import Lesson, State
from zerosim.lessons.cells import COLUMNS
from zerosim.units import format_bytes, format_ns
from zerosim_app.components.attributes import wild

WORDS: Final = {
    "empty": "nothing",
    "shard": "own part only",
    "gathered": "all parts, the others' gathered",
    "full": "all parts",
    "stale": "all parts, the others' out of date",
    "local": "own gradients of all parts, not summed",
    "moving": "being summed over the ranks",
    "summed": "the sum, all parts",
    "both": "own part summed, the rest local",
    "kept": "kept for the backward",
}
"""What a cell's fill means, for those who hear it."""
_LABEL_FROM: Final = 2.5
"""Per cent of the step from which a bar has room for its name."""
PHASES: Final = ("forward", "backward", "update")


def role_of(kind: Kind | None) -> str:
    """The colour role of an op, as the stylesheet knows it."""
    return ROLE[kind] if kind is not None else "none"


def steps(lesson: Lesson) -> dict[str, Any]:
    """All states at once, as the browser steps through them (assets/40_learn.js)."""
    most = max(state.total_bytes for state in lesson.states)
    kinds = _kinds(lesson)
    return {
        "lesson": lesson.name,
        "columns": list(COLUMNS),
        "units": list(lesson.units),
        "words": WORDS,
        "states": [
            {
                "phase": state.phase,
                "sentence": state.sentence,
                "meanwhile": meanwhile(state),
                "cells": [state.cells[c, u] for c in COLUMNS for u in lesson.units],
                "hot": [
                    i
                    for i, key in enumerate((c, u) for c in COLUMNS for u in lesson.units)
                    if key in state.hot
                ],
                "shares": [round(100 * dict(state.nbytes)[kind] / most, 3) for kind in kinds],
                "bytes": [format_bytes(dict(state.nbytes)[kind]) for kind in kinds],
                "total": format_bytes(state.total_bytes),
            }
            for state in lesson.states
        ],
    }


def meanwhile(state: State) -> str:
    """What runs at the same time, as a sentence; empty if nothing does."""
    return f"At the same time: {', '.join(state.meanwhile)}." if state.meanwhile else ""


def strip(lesson: Lesson, step: int) -> html.Div:
    """The ops of the step as buttons, in issue order; the first and the last stand for its edges."""
    return html.Div(
        [_strip_button(state, step) for state in lesson.states],
        className="zs-strip",
        role="group",
        **wild({"aria-label": "Ops of the step, in the order in which they are issued"}),
    )


def _strip_button(state: State, step: int) -> html.Button:
    label = {"before": "start", "after": "end"}.get(state.name, state.name)
    free = html.Small(f"{state.aside} {state.unit}" if state.aside else "\u00a0")
    return html.Button(
        [html.Span(label), free],
        className="zs-op",
        type="button",
        **wild(
            {
                "data-step": str(state.index),
                "data-role": role_of(state.kind),
                "aria-current": "step" if state.index == step else "false",
            }
        ),
    )


def chips(lesson: Lesson, step: int) -> html.Div:
    """The phases as buttons that jump to their first op."""
    first = {phase: next(s.index for s in lesson.states if s.phase == phase) for phase in PHASES}
    return html.Div(
        [
            html.Button(
                phase.capitalize(),
                className="zs-chip",
                type="button",
                **wild(
                    {
                        "data-step": str(first[phase]),
                        "data-phase": phase,
                        "aria-pressed": str(lesson.states[step].phase == phase).lower(),
                    }
                ),
            )
            for phase in PHASES
        ],
        className="zs-chips",
        role="group",
        **wild({"aria-label": "Jump to a phase"}),
    )


def controls(lesson: Lesson, step: int) -> html.Div:
    """Previous, play, next, and where we are."""

    def button(text: str, does: str, label: str) -> html.Button:
        return html.Button(
            text,
            className="zs-control",
            type="button",
            **wild({"data-does": does, "aria-label": label}),
        )

    return html.Div(
        [
            button("\u2039", "previous", "Previous step"),
            button("Play", "play", "Play the lesson"),
            button("\u203a", "next", "Next step"),
            html.Span(
                f"{step} of {len(lesson.states) - 1}", className="zs-count", id="lesson-count"
            ),
        ],
        className="zs-controls",
    )


def cards(lesson: Lesson, step: int) -> html.Div:
    """One card a GPU: a cell a layer and kind of state, cut into the parts of the ranks."""
    return html.Div(
        [_card(lesson, lesson.states[step], rank) for rank in range(lesson.n_ranks)],
        className="zs-gpus",
    )


def _card(lesson: Lesson, state: State, rank: int) -> html.Section:
    head: list[Component] = [html.Span()]
    head += [html.Span(column.capitalize(), className="zs-col") for column in COLUMNS]
    rows = [
        part
        for i, unit in enumerate(lesson.units)
        for part in (
            html.Span(f"Layer {unit}", className="zs-row-label"),
            *(
                _cell(lesson, state, rank, column, unit, k * len(lesson.units) + i)
                for k, column in enumerate(COLUMNS)
            ),
        )
    ]
    return html.Section(
        [
            html.H3(
                [f"GPU {rank}", html.Span(format_bytes(state.total_bytes), className="zs-total")]
            ),
            html.Div([*head, *rows], className="zs-cells"),
            _bar(lesson, state),
        ],
        className="zs-gpu",
        **wild({"aria-label": f"GPU {rank}"}),
    )


def _cell(lesson: Lesson, state: State, rank: int, column: str, unit: str, index: int) -> html.Div:
    fill = state.cells[column, unit]
    whole = column == "activations"
    parts = [
        html.I(className="own" if whole or part == rank else None)
        for part in range(1 if whole else lesson.n_ranks)
    ]
    subject = f"GPU {rank}, layer {unit}, {column}"
    return html.Div(
        parts,
        className="zs-cell",
        role="img",
        **wild(
            {
                "aria-label": f"{subject}: {WORDS[fill]}",
                "data-subject": subject,
                "data-cell": str(index),
                "data-column": column,
                "data-fill": fill,
                "data-hot": str((column, unit) in state.hot).lower(),
            }
        ),
    )


def _bar(lesson: Lesson, state: State) -> html.Div:
    most = max(s.total_bytes for s in lesson.states)
    nbytes = dict(state.nbytes)
    return html.Div(
        [
            html.I(
                style={"width": f"{100 * nbytes[kind] / most:.3f}%"},
                title=MEMORY[kind].label,
                **wild({"data-kind": kind}),
            )
            for kind in _kinds(lesson)
        ],
        className="zs-membar",
        **wild({"aria-hidden": "true"}),
    )


def legend(lesson: Lesson, step: int) -> html.Ul:
    """The kinds of memory, their colours, and how many bytes of each a rank holds now."""
    nbytes = dict(lesson.states[step].nbytes)
    return html.Ul(
        [
            html.Li(
                [
                    html.I(**wild({"data-kind": kind})),
                    html.Span(MEMORY[kind].label.capitalize()),
                    html.B(format_bytes(nbytes[kind]), className="zs-kind-bytes"),
                ]
            )
            for kind in _kinds(lesson)
        ],
        className="zs-legend",
        **wild({"aria-label": "Bytes of one GPU by kind"}),
    )


def schedule(lesson: Lesson, step: int) -> html.Div:
    """When the ops run: a row a stream, bars to scale, the current one marked."""
    end = max(state.end_ns for state in lesson.states)
    streams = dict.fromkeys(s.stream for s in lesson.states if s.stream is not None)
    rows = [
        part
        for stream in streams
        for part in (
            html.Span(stream.replace("_", "-"), className="zs-lane-name"),
            html.Div(
                [_bar_of(s, end, step) for s in lesson.states if s.stream == stream],
                className="zs-lane",
            ),
        )
    ]
    axis = [html.Span(), html.Div([html.Span("0"), html.Span(format_ns(end))], className="zs-axis")]
    return html.Div([*rows, *axis], className="zs-schedule")


def _bar_of(state: State, end: int, step: int) -> html.Button:
    left, width = 100 * state.start_ns / end, 100 * (state.end_ns - state.start_ns) / end
    took = format_ns(state.end_ns - state.start_ns)
    return html.Button(
        state.name if width >= _LABEL_FROM else "",
        type="button",
        className="zs-bar",
        tabIndex=-1,
        title=f"{state.name}: {took}",
        style={"left": f"{left:.4f}%", "width": f"{width:.4f}%"},
        **wild(
            {
                "data-step": str(state.index),
                "data-role": role_of(state.kind),
                "aria-current": "step" if state.index == step else "false",
                "aria-label": f"{state.name}, {took}",
            }
        ),
    )


def store(lesson: Lesson) -> dcc.Store:
    """The states, for the browser."""
    return dcc.Store(id="lesson-states", data=steps(lesson))


def _kinds(lesson: Lesson) -> tuple[str, ...]:
    """Kinds of memory that the lesson uses at all."""
    return tuple(k for k in MEMORY if any(dict(s.nbytes).get(k) for s in lesson.states))
