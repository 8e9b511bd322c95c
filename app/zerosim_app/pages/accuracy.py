"""Accuracy: predicted steps and collectives beside measured ones, with every row and what was assumed."""

from __future__ import annotations

from typing import Any, Final, cast

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, html
from dash.development.base_component import Component

from zerosim.validation.published import published
from zerosim_app.components.attributes import wild
from zerosim_app.components.cards import heading, page
from zerosim_app.components.scores import VIEWS, shown, tiles
from zerosim_app.components.scores.collectives import series_of
from zerosim_app.components.scores.steps import options
from zerosim_app.urlstate import AccuracyState, decode

BY: Final = {"source": "Source", "gpu": "GPU", "size": "Model size", "GPUs": "GPU count"}
_ALL: Final = {"value": "all", "label": "all rows", "says": "whether complete or not"}
_FILTERS: Final = ("suite", "split", "source", "gpu", "by", "series")
_LEAD: Final = (
    "The simulator beside runs that others measured. Constants were fitted on rows marked calib "
    "alone; rows marked test were only ever predicted."
)


def layout(**query: Any) -> html.Div:  # noqa: ANN401 - Dash hands in whatever the address says
    """The page of the scores that the address asks for."""
    state = decode(AccuracyState, query)
    return page(
        heading("Accuracy", _LEAD),
        tiles(published()),
        html.Div(
            [
                dmc.SegmentedControl(
                    id="acc-view",
                    data=[{"value": k, "label": v} for k, v in VIEWS.items()],
                    value=state.view,
                    **wild({"aria-label": "What to show"}),
                ),
                html.Div(
                    _filters(state),
                    className="zs-row",
                    id="acc-filters",
                    **wild({"data-view": state.view}),
                ),
            ],
            className="zs-row zs-between",
        ),
        html.Div(id="acc-shown", className="zs-stack zs-tab"),
    )


def _filters(state: AccuracyState) -> list[html.Div]:
    board = published().steps
    choices = options(board)
    suites = [{"value": s.name, "label": s.name, "says": s.says} for s in board.suites]
    return [
        _select("suite", "Rows", [*suites, _ALL], state.suite),
        *(_select(name, label, list(choices[name]), getattr(state, name), clears=True)
          for name, label in (("split", "Split"), ("source", "Source"), ("gpu", "GPU"))),
        _select("by", "Bars by", [{"value": k, "label": v} for k, v in BY.items()], state.by),
        _select("series", "Series", series_of(published()), state.series, clears=True),
    ]  # fmt: skip


def _select(
    name: str, label: str, data: list[Any], value: str | None, *, clears: bool = False
) -> html.Div:
    return html.Div(
        dmc.Select(
            id=f"acc-{name}",
            data=data,
            value=value,
            placeholder=label if clears else None,
            clearable=clears,
            allowDeselect=False,
            searchable=True,
            size="xs",
            comboboxProps={"width": 300, "position": "bottom-start"},
            **({"renderOption": {"function": "zsOption"}} if name == "suite" else {}),
            **wild({"aria-label": label}),
        ),
        className=f"zs-filter zs-filter-{name}",
    )


def register(app: Dash) -> None:
    """Put the page at `/accuracy`."""
    dash.register_page(
        "zerosim_app.accuracy", path="/accuracy", title="Accuracy · zerosim", layout=layout
    )
    asked = [Input(f"acc-{name}", "value") for name in ("view", *_FILTERS)]
    app.callback(Output("acc-shown", "children"), Input("theme", "data"), *asked)(show)
    app.clientside_callback(
        ClientsideFunction("zs", "keepScores"),
        Output("acc-filters", "data-view"),
        *asked,
        prevent_initial_call=True,
    )


def show(theme: str, *asked: str | None) -> list[Component]:
    """The view that is open."""
    given = dict(zip(("view", *_FILTERS), asked, strict=True))
    state = decode(AccuracyState, cast("dict[str, Any]", given))
    return shown(published(), state, "dark" if theme == "dark" else "light")
