"""The small building blocks of pages: titles, tiles, panels, figures with their sentence, problems."""

from __future__ import annotations

from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from zerosim.figures.theme import Drawing
from zerosim_app.components.attributes import wild
from zerosim_app.config import GRAPH

Child = str | Component
Children = Child | Sequence[Child]


def page(*children: Component | None) -> html.Div:
    """A page's content, one column with even spacing; what is None is left out."""
    return html.Div([child for child in children if child is not None], className="zs-stack")


def heading(title: str, lead: Children | None = None) -> html.Div:
    """A page's title and the sentence below it."""
    return html.Div(
        [html.H1(title, className="zs-h1"), html.P(lead, className="zs-lead") if lead else None]
    )


def panel(
    title: str | None, *children: Component | str | None, note: str | None = None
) -> html.Section:
    """A bordered area with a small title, and perhaps a note beside it."""
    head: list[Component] = [html.H2(title, className="zs-h2")] if title else []
    if note:
        head.append(html.Span(note, className="zs-note"))
    kept = [child for child in children if child is not None]
    return html.Section([html.Div(head, className="zs-panel-head"), *kept] if head else kept,
                        className="zs-panel")  # fmt: skip


def tile(label: str, value: str, note: str = "") -> html.Div:
    """One number of a run, with what it is."""
    unknown = " zs-unknown" if value == "unknown" else ""
    return html.Div(
        [
            html.Div(label, className="zs-tile-label"),
            html.Div(value, className=f"zs-tile-value{unknown}"),
            html.Div(note, className="zs-tile-note"),
        ],
        className="zs-tile",
    )


def drawing(id_: str, drawn: Drawing) -> html.Figure:
    """A Plotly figure with its sentence, which is also what a screen reader hears.

    Its room is kept while Plotly is still on its way.
    """
    height = f"{drawn.figure.layout.height or 300}px"
    return html.Figure(
        [
            html.Div(
                dcc.Graph(id=id_, figure=drawn.figure, config=GRAPH, style={"height": height}),
                style={"minHeight": height},
            ),
            html.Figcaption(drawn.sentence),
        ],
        className="zs-figure",
        role="group",
        **wild({"aria-label": drawn.sentence}),
    )


def problem(sentence: str) -> html.Div:
    """What is shown instead of a page's content when there is none, with the reason."""
    return html.Div(
        [html.Strong("This cannot be shown. "), sentence], className="zs-problem", role="alert"
    )


def empty(*children: Child) -> html.Div:
    """A quiet invitation where there is nothing yet."""
    return html.Div(list(children), className="zs-empty")
