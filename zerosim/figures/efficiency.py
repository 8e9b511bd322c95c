"""Scaling efficiency of groups of runs that differ only in GPU count: predicted beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from zerosim.figures.palette import GRID, RUN, Theme
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.validation.scaling import Efficiency

_MARGIN: Final = {"l": 236, "r": 24, "t": 40, "b": 44}
_ROW: Final = 22
"""Pixels a group."""


def efficiency(found: Sequence[Efficiency], theme: Theme) -> Drawing:
    """A line a group from measured to predicted, the largest error on top."""
    if not found:
        return nothing(theme, "No group of runs that differ only in GPU count is left.")
    ordered = sorted(found, key=lambda one: (-abs(one.points), one.group))
    names = [_name(one) for one in ordered]
    figure = blank(theme, x="scaling efficiency, %", height=max(200, 100 + _ROW * len(ordered)))
    for name, one in zip(names, ordered, strict=True):
        figure.add_scatter(
            x=[100 * one.measured, 100 * one.predicted],
            y=[name, name],
            mode="lines",
            line={"color": GRID[theme], "width": 4},
            hoverinfo="skip",
            showlegend=False,
        )
    for label, swatch, symbol in (
        ("measured", RUN[0], "circle-open"),
        ("predicted", RUN[1], "circle"),
    ):
        figure.add_scatter(
            x=[100 * getattr(one, label) for one in ordered],
            y=names,
            mode="markers",
            name=label,
            marker={"color": swatch[theme], "size": 9, "symbol": symbol, "line": {"width": 2}},
            customdata=[f"{one.points:+.1f} points ({one.split})" for one in ordered],
            hovertemplate="%{y}<br>" + label + " %{x:.1f} %, error %{customdata}<extra></extra>",
        )
    figure.update_yaxes(autorange="reversed", type="category", title=None)
    figure.update_layout(margin=_MARGIN)
    return Drawing(figure, _sentence(ordered))


def _name(one: Efficiency) -> str:
    return f"{one.source_id} {one.group}, {one.from_gpus} → {one.to_gpus}"


def _sentence(ordered: Sequence[Efficiency]) -> str:
    worst = ordered[0]
    middle = median(abs(one.points) for one in ordered)
    kind = "group" if len(ordered) == 1 else "groups"
    return (
        f"Tokens a second and GPU at the largest count over those at the smallest, of {len(ordered)} "
        f"{kind}: the error is {middle:.1f} points in the middle, and {abs(worst.points):.1f} at the "
        f"most ({worst.source_id}, {worst.from_gpus} to {worst.to_gpus} GPUs)."
    )
