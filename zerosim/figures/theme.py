"""How every figure looks: one template a theme, fixed margins, and the sentence beside the figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from zerosim.figures.palette import BACKGROUND, GRID, INK, MUTED, OPS, Theme

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
MARGIN: Final = {"l": 72, "r": 16, "t": 36, "b": 44}
"""The same for every figure, so that stacked figures line up and nothing shifts."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure and what it shows, as one sentence for those who cannot see it."""

    figure: go.Figure
    sentence: str


def template(theme: Theme) -> go.layout.Template:
    """The look of `theme`, as an object (a Patch does not take a template's name)."""
    axis = {
        "gridcolor": GRID[theme],
        "zerolinecolor": GRID[theme],
        "linecolor": GRID[theme],
        "tickcolor": GRID[theme],
        "ticks": "outside",
        "ticklen": 4,
        "automargin": False,
        "title": {"font": {"size": 12, "color": MUTED[theme]}, "standoff": 8},
    }
    layout = go.Layout(
        font={"family": FONT, "size": 12, "color": INK[theme]},
        title={"font": {"size": 14}, "x": 0, "xref": "paper", "xanchor": "left"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        colorway=[swatch[theme] for swatch in OPS.values()],
        margin=MARGIN,
        xaxis=axis,
        yaxis=axis,
        bargap=0.28,
        legend={
            "orientation": "h",
            "traceorder": "normal",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12, "color": INK[theme]},
        },
        hoverlabel={
            "bgcolor": BACKGROUND[theme],
            "bordercolor": GRID[theme],
            "font": {"family": FONT, "size": 12, "color": INK[theme]},
        },
        hovermode="closest",
    )
    return go.layout.Template(layout=layout)


def blank(theme: Theme, *, x: str = "", y: str = "", height: int = 300) -> go.Figure:
    """An empty figure with the axes named: what a builder starts from. Axes do not zoom."""
    figure = go.Figure()
    figure.update_layout(
        template=template(theme),
        margin=MARGIN,
        height=height,
        xaxis={"title": {"text": x}, "fixedrange": True},
        yaxis={"title": {"text": y}, "fixedrange": True},
    )
    return figure


def nothing(theme: Theme, why: str, *, height: int = 300) -> Drawing:
    """What is drawn when a run does not say: the reason in the middle, no axes, no zeros."""
    figure = blank(theme, height=height)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(
        text=why,
        x=0.5,
        y=0.5,
        xref="paper",
        yref="paper",
        showarrow=False,
        font={"size": 13, "color": MUTED[theme]},
    )
    return Drawing(figure, why)
