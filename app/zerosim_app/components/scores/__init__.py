"""The scoreboard on a page: its tiles, and one view of it, of the rows that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dash import html
from dash.development.base_component import Component

from zerosim.figures.palette import Theme
from zerosim.validation.board import Scoreboard
from zerosim.validation.published import Published
from zerosim_app.components.cards import tile
from zerosim_app.components.scores import collectives, left, mechanisms, memory, steps
from zerosim_app.urlstate import AccuracyState, Scores

VIEWS: Final[dict[Scores, str]] = {
    "steps": "Steps",
    "scaling": "Scaling",
    "collectives": "Collectives",
    "memory": "Memory",
    "mechanisms": "Mechanisms",
    "left": "Left out",
}


def tiles(published: Published) -> html.Div:
    """How far off the simulator is, in a handful of numbers."""
    board = published.steps
    return html.Div(
        [*_suite(board, "test", "Unseen steps"), *_suite(board, "mosaicml", "MosaicML FSDP"),
         _scaling(board), _collectives(published), _memory_tile(published)],
        className="zs-tiles",
    )  # fmt: skip


def _suite(board: Scoreboard, name: str, label: str) -> list[html.Div]:
    suite = board.suite(name)
    if suite is None:
        return [tile(label, "unknown")]
    found, null = suite.errors, suite.null
    rows = f"{found.n_rows} rows, {found.n_sources} sources"
    beside = "" if null is None else f"null model {null.median:.1%}"
    mean = "" if null is None else f"null model {null.mean:.1%}"
    return [
        tile(f"{label}, median", f"{found.median:.1%}", beside or rows),
        tile(f"{label}, mean", f"{found.mean:.1%}", mean or rows),
        tile(f"{label}, 90 % within", f"{found.p90:.1%}", rows),
    ]


def _scaling(board: Scoreboard) -> html.Div:
    suite = board.suite("test")
    if suite is None or suite.scaling is None:
        return tile("Scaling", "unknown")
    return tile(
        "Scaling, median", f"{suite.scaling.median:.1f} pts", f"{suite.scaling.n_groups} groups"
    )


def _collectives(published: Published) -> html.Div:
    unseen = published.collectives.of("test")
    met = sum(bool(score.meets) for score in unseen)
    return tile("Collectives", f"{met} of {len(unseen)}", "unseen series within 15 %, 10 %")


def _memory_tile(published: Published) -> html.Div:
    unseen = next((one for one in published.memory.splits if one.split == "test"), None)
    if unseen is None or unseen.errors is None:
        return tile("Memory", "unknown")
    found = unseen.errors
    return tile(
        "Unseen memory, median",
        f"{found.median:.1%}",
        f"{found.n_rows} figures, {found.n_sources} sources",
    )


def shown(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
    """The view that is open, of the rows that are asked for."""
    return _VIEWS[state.view](published, state, theme)


_VIEWS: Final[dict[Scores, Callable[[Published, AccuracyState, Theme], list[Component]]]] = {
    "steps": steps.steps,
    "scaling": steps.scaling,
    "collectives": collectives.series,
    "memory": memory.memory,
    "mechanisms": mechanisms.mechanisms,
    "left": left.left,
}
