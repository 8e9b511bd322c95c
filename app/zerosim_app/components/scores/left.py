"""What is left out of the scores and why, and the blanks that were filled."""

from __future__ import annotations

from typing import Final

from dash.development.base_component import Component

from zerosim.figures.palette import Theme
from zerosim.validation.published import Published
from zerosim_app.components.cards import panel
from zerosim_app.components.tables import Column, table
from zerosim_app.urlstate import AccuracyState

_REASONS: Final = (
    Column("source", "Source"),
    Column("n", "Rows", "count"),
    Column("wanted", "Wanted", tip="Whether it was meant to be scored"),
    Column("why", "Why", parts=8, told=True),
)
_FILLED: Final = (Column("what", "Assumed", wide=True), Column("n", "Rows", "count"))


def left(published: Published, _state: AccuracyState, _theme: Theme) -> list[Component]:
    """Reasons, those of rows that were meant to be scored first; defaults, the most frequent first."""
    board = published.steps
    every = sorted(published.left_out, key=lambda one: (not one.wanted, -one.n))
    left = [
        {"source": r.source_id, "n": r.n, "wanted": "yes" if r.wanted else "no", "why": r.sentence}
        for r in every
    ]
    filled = [{"what": what, "n": n} for what, n in board.filled]
    return [
        panel(
            "Rows left out",
            table("acc-left", _REASONS, left, label="Why rows are left out", max_rows=16),
            note=f"{sum(one.n for one in every)} rows",
        ),
        panel(
            "Blanks that were filled",
            table("acc-filled", _FILLED, filled, label="Documented defaults, counted"),
            note="each is listed with its row",
        ),
    ]
