"""What the views of the scoreboard share: a panel around a figure, and assumptions as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from zerosim.figures.theme import Drawing
from zerosim_app.components.cards import drawing, panel

Row = dict[str, Any]


def framed(title: str, id_: str, drawn: Drawing, note: str | None = None) -> html.Section:
    """A figure in a panel of its own."""
    return panel(title, drawing(id_, drawn), note=note)


def assumed(defaults: Sequence[tuple[str, str, str]]) -> str:
    """The blanks of a row that were filled, as text."""
    return ", ".join(f"{column} = {value}" for column, value, _ in defaults)
