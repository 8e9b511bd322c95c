"""Mechanisms: the errors of unseen rows without each of them."""

from __future__ import annotations

from typing import Final

from dash.development.base_component import Component

from zerosim.figures.palette import Theme
from zerosim.figures.worth import worth
from zerosim.validation.ablation import Ablated
from zerosim.validation.published import Published, ablations
from zerosim_app.components.cards import panel
from zerosim_app.components.scores.parts import Row, framed
from zerosim_app.components.tables import Column, table
from zerosim_app.urlstate import AccuracyState

_SUITE: Final = "core-holdout"
_COLUMNS: Final = (
    Column("says", "Without", parts=6, told=True),
    Column("median", "Median", "percent", parts=2),
    Column("mean", "Mean", "percent", parts=2),
    Column("p90", "90 % within", "percent", parts=2),
    Column("mosaicml", "MosaicML, mean", "percent", parts=2),
    Column("scaling", "Scaling, points", "points", parts=2),
)


def mechanisms(_published: Published, _state: AccuracyState, theme: Theme) -> list[Component]:
    """How much each mechanism is worth on core rows that nothing was fitted on, and the table of it."""
    found = ablations()
    refitted = any(one.refitted for one in found)
    fitted = "constants fitted anew each time" if refitted else "constants as they are"
    label = "Errors without each mechanism"
    drawn = framed(
        "What each mechanism is worth",
        "acc-worth",
        worth(found, _SUITE, theme),
        "core rows that nothing was fitted on",
    )
    if not found:
        return [drawn]
    return [
        drawn,
        panel(
            label,
            table("acc-without", _COLUMNS, [_row(one) for one in found], label=label),
            note=fitted,
        ),
    ]


def _row(one: Ablated) -> Row:
    errors, mosaicml = one.errors.get(_SUITE), one.errors.get("mosaicml")
    return {
        "says": one.says,
        "median": None if errors is None else errors.median,
        "mean": None if errors is None else errors.mean,
        "p90": None if errors is None else errors.p90,
        "mosaicml": None if mosaicml is None else mosaicml.mean,
        "scaling": one.scaling.get(_SUITE),
    }
