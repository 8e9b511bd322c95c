"""What each mechanism is worth: how much larger the error is without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zerosim.figures.palette import OPS, Theme
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.validation.ablation import Ablated

_MARGIN: Final = {"l": 120, "r": 64, "t": 8, "b": 44}


def worth(found: Sequence[Ablated], suite: str, theme: Theme) -> Drawing:
    """A bar a mechanism: the mean error of a suite without it less that with all, in points."""
    every = {one.mechanism: one.errors[suite].mean for one in found if suite in one.errors}
    whole = every.pop("", None)
    if whole is None or not every:
        return nothing(theme, "Nobody has taken mechanisms out of the simulator yet.")
    ordered = sorted(every, key=lambda name: (-every[name], name))
    points = [100 * (every[name] - whole) for name in ordered]
    figure = blank(
        theme, x="mean error without it, less that with all, points", height=90 + 30 * len(ordered)
    )
    figure.add_bar(
        y=ordered,
        x=points,
        orientation="h",
        marker={"color": [_colour(value, theme) for value in points]},
        text=[f"{value:+.1f}" for value in points],
        textposition="outside",
        cliponaxis=False,
        hoverinfo="skip",
    )
    figure.update_yaxes(autorange="reversed", type="category", title=None)
    figure.update_layout(margin=_MARGIN, bargap=0.35)
    text = ", ".join(f"{name} {value:+.1f}" for name, value in zip(ordered, points, strict=True))
    return Drawing(figure, f"{suite}: {whole:.1%} with all mechanisms; without one: {text} points.")


def _colour(points: float, theme: Theme) -> str:
    """A mechanism without which the error is smaller stands out."""
    return OPS["forward" if points >= 0 else "reduce_scatter"][theme]
