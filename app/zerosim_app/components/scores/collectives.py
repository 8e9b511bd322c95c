"""Collectives: a series as curves, and the errors of all series."""

from __future__ import annotations

from typing import Final

from dash.development.base_component import Component

from zerosim.figures import busbw
from zerosim.figures.palette import Theme
from zerosim.validation.collectives import SeriesScore
from zerosim.validation.published import Published
from zerosim_app.components.cards import panel
from zerosim_app.components.scores.parts import Row, framed
from zerosim_app.components.tables import Column, table
from zerosim_app.urlstate import AccuracyState

_SERIES: Final = (
    Column("series", "Series", wide=True),
    Column("split", "Split"),
    Column("cluster", "Machine", wide=True),
    Column("n", "Rows", "count", tip="From 32 KiB up"),
    Column("mean", "Mean error", "percent", tip="From 32 KiB up"),
    Column("mean_large", "Large", "percent", tip="From 64 MiB up"),
    Column("bias", "Bias", "percent"),
    Column(
        "meets", "Meets", tip="Mean and large within 10 % and 6 % (calib), 15 % and 10 % (test)"
    ),
)


def series(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
    """The series that is asked for as curves (the one with most rows, if none is), and all of them."""
    found = published.collectives
    names = series_of(published)
    name = state.series if state.series in names else names[0]
    mine = [row for row in found.rows if row.series == name]
    kept = [score for score in found.series if state.split in (None, score.split)]
    label = "Measured series of collectives, worst first"
    return [
        framed(
            name, "acc-busbw", busbw.busbw(mine, theme), "bus bandwidth as nccl-tests counts it"
        ),
        panel(
            "Series, worst first",
            table("acc-series", _SERIES, [_score(score) for score in kept], label=label),
            note="mean error from 32 KiB up; large: from 64 MiB up",
        ),
    ]


def _score(score: SeriesScore) -> Row:
    met = {None: "no bars", True: "yes", False: "no"}[score.meets]
    fields = ("series", "split", "cluster", "n", "mean", "mean_large", "bias")
    return {field: getattr(score, field) for field in fields} | {"meets": met}


def series_of(published: Published) -> list[str]:
    """The series of collectives that have a prediction, those with most rows first."""
    ordered = sorted(published.collectives.series, key=lambda score: (-score.n, score.series))
    return list(dict.fromkeys(score.series for score in ordered))
