"""The timeline as a page places it: its frame, toolbar and stores; the browser draws it (assets/*_zs_*)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote

from dash import Dash, Input, Output, dcc, html

KEYS: Final = (
    "Timeline. W and S zoom, A and D or arrows pan, comma and period go to the previous and next "
    "span of the row, F fits the selection or the step, plus and minus zoom, Space plays, "
    "Escape clears, arrows up and down scroll the rows."
)
HINT: Final = (
    "Wheel: zoom · drag: move · Shift+drag, or drag on the ruler: measure · click: select · "
    "keys W S A D , . F Space"
)


@dataclass(frozen=True, slots=True)
class RunUrl:
    """One run to draw: its id, what it is called on the page, and where its timeline.json is."""

    id: str
    label: str | None = None

    @property
    def url(self) -> str:
        """The address of the run's timeline.json."""
        return f"/api/runs/{quote(self.id, safe='')}/timeline.json"


@dataclass(frozen=True, slots=True)
class Options:
    """How a timeline opens; what the address bar says of the view goes before it.

    `ranks`: `classes` (equal ranks once), `all`, or ranks as `0,4-7`. `height` is the most the
    timeline may take, in CSS pixels. `address`: whether the view is kept in the address bar.
    """

    align: Literal["step", "F0", "op"] = "step"
    scale: Literal["abs", "norm"] = "abs"
    ranks: str = "classes"
    memory: bool = True
    height: int = 520
    address: bool = True


def config(
    id_prefix: str, runs: Sequence[RunUrl], options: Options | None = None
) -> dict[str, Any]:
    """What the store `<prefix>-cfg` holds; setting it anew changes the timeline in place."""
    chosen = options or Options()
    return {
        "prefix": id_prefix,
        "runs": [{"id": run.id, "label": run.label, "url": run.url} for run in runs],
        "align": chosen.align,
        "scale": chosen.scale,
        "ranks": chosen.ranks,
        "memory": chosen.memory,
        "height": chosen.height,
        "address": chosen.address,
    }


def timeline(
    id_prefix: str, runs: Sequence[RunUrl], options: Options | None = None
) -> html.Section:
    """The timeline of one run, or of two on one axis, with its stores.

    Stores: `<prefix>-cfg` (server to browser, see `config`); `<prefix>-view`: {t0, t1, ranks, align,
    scale, runs: [{run_id, t0_ns, t1_ns}]}, the window in ns since each run's first start;
    `<prefix>-sel`: null, {type: "span", run, run_id, span, rank, name, kind, unit, start_ns,
    duration_ns} with `span` the row of `Trace.spans`, or {type: "area", runs: [...]} as in view.
    """
    chosen = config(id_prefix, runs, options)
    return html.Section(
        [
            dcc.Store(id=f"{id_prefix}-cfg", data=chosen),
            dcc.Store(id=f"{id_prefix}-view"),
            dcc.Store(id=f"{id_prefix}-sel"),
            html.Div(
                [
                    _toolbar(compares=len(runs) > 1),
                    html.Div(className="zs-tl-problem", **_part("problem", role="alert")),
                    html.Div(className="zs-tl-stage", **_part("stage")),
                    _foot(),
                ],
                id=f"{id_prefix}-root",
                className="zs-tl",
                tabIndex=0,
                role="application",
                **_part("root", **{"aria-label": KEYS, "data-cfg": json.dumps(chosen)}),
            ),
        ],
        className="zs-tl-section",
    )


def register(app: Dash, id_prefix: str) -> None:
    """Let the browser hear of changes of `<prefix>-cfg`; once an app and prefix."""
    app.clientside_callback(
        "function (cfg) { return JSON.stringify(cfg); }",
        Output(f"{id_prefix}-root", "data-cfg"),
        Input(f"{id_prefix}-cfg", "data"),
        prevent_initial_call=True,
    )


_SPEED: Final = (
    "speed",
    (("0.25", "1/4"), ("0.5", "1/2"), ("1", "1"), ("2", "2"), ("4", "4")),
)
_ALIGN: Final = (
    "align",
    (("step", "step start"), ("F0", "first forward"), ("op", "selected op")),
)
_SCALE: Final = ("scale", (("abs", "absolute"), ("norm", "equal steps")))


def _part(name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - aria and data attributes
    return {"data-part": name, **more}


def _button(act: str, text: str, title: str, name: str | None = None) -> html.Button:
    extra: dict[str, Any] = {"data-act": act}
    if name is not None:
        extra["aria-label"] = name
    return html.Button(text, type="button", title=title, **extra)


def _choice(name: str, choices: tuple[tuple[str, str], ...]) -> html.Label:
    options = [html.Option(text, value=key) for key, text in choices]
    extra: dict[str, Any] = {"data-choice": name}
    return html.Label([name, html.Select(options, **extra)])


def _toolbar(*, compares: bool) -> html.Div:
    sets: list[list[html.Button | html.Label]] = [
        [
            _button("fit", "Fit step", "Show one step (Home, or F without a selection)"),
            _button("whole", "Whole run", "Show everything"),
            _button("in", "+", "Zoom in (+)", "Zoom in"),
            _button("out", "\u2212", "Zoom out (-)", "Zoom out"),
        ],
        [
            _button("ranks", "Expand ranks", "Equal ranks once, or every rank"),
            _button("memory", "Memory", "Show or hide the memory track"),
        ],
        [_choice(*_ALIGN), _choice(*_SCALE)] if compares else [],
        [_button("play", "Play", "Replay in slow motion (Space)"), _choice(*_SPEED)],
        [_button("png", "PNG", "Save what is in sight as a picture")],
    ]
    shown = [html.Div(list(parts), className="zs-tl-set") for parts in sets if parts]
    legend = html.Div(className="zs-tl-legend", **_part("legend"))
    return html.Div([*shown, legend], className="zs-tl-bar")


def _foot() -> html.Div:
    live = {"role": "status", "aria-live": "polite"}
    return html.Div(
        [
            html.Div(className="zs-tl-live", **_part("live", **live)),
            html.Div(className="zs-tl-now", **_part("now", **{"aria-hidden": "true"})),
            html.Div(HINT, className="zs-tl-hint"),
        ],
        className="zs-tl-foot",
    )
