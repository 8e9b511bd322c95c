"""Predicted against measured, both axes logarithmic: the diagonal, its bands, and the look of a point."""

from __future__ import annotations

import math
from typing import Any, Final

import plotly.graph_objects as go

from zerosim.figures.palette import GRID, MUTED, SOURCES, Theme
from zerosim.figures.theme import blank

MARGIN: Final = {"l": 72, "r": 16, "t": 16, "b": 44}
NARROW: Final = 0.05
WIDE: Final = 0.20
"""The bands around the diagonal: what one hopes for, and what is still of use."""
_SYMBOLS: Final = {"calib": ("diamond-open", "cross-open")}
_FILLED: Final = ("circle", "square")
"""Symbols by split; the second of each where colours begin anew."""
_ROOM: Final = 1.4
_HEIGHT: Final = 520


def diagonal(low: float, high: float, what: str, theme: Theme) -> go.Figure:
    """A square without points yet, for values from `low` to `high` of `what` (with its unit)."""
    low, high = low / _ROOM, high * _ROOM
    figure = blank(theme, x=f"measured {what}", y=f"predicted {what}", height=_HEIGHT)
    for share, opacity in ((WIDE, 0.5), (NARROW, 0.9)):
        above, below = 1 + share, 1 / (1 + share)
        figure.add_scatter(
            x=[low, high, high, low],
            y=[low * below, high * below, high * above, low * above],
            fill="toself",
            fillcolor=GRID[theme],
            opacity=opacity,
            mode="none",
            hoverinfo="skip",
            showlegend=False,
        )
    figure.add_scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        line={"color": MUTED[theme], "width": 1, "dash": "dot"},
        hoverinfo="skip",
        showlegend=False,
    )
    axis = {"type": "log", "range": [math.log10(low), math.log10(high)], "dtick": 1}
    figure.update_xaxes(axis)
    figure.update_yaxes(axis)
    legend = {"orientation": "v", "x": 1.01, "y": 1, "yanchor": "top", "itemsizing": "constant"}
    figure.update_layout(margin=MARGIN, legend=legend)
    return figure


def mark(place: int, split: str, theme: Theme) -> dict[str, Any]:
    """The marker of a source, which is the `place`-th, and of a split."""
    again, colour = divmod(place, len(SOURCES))
    return {
        "color": SOURCES[colour][theme],
        "size": 8,
        "symbol": _SYMBOLS.get(split, _FILLED)[again % 2],
        "line": {"width": 1.4 if split == "calib" else 0, "color": SOURCES[colour][theme]},
    }
