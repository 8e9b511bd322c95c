"""Steps and their scaling: what was predicted of each row, beside the null model and beside others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dash import html
from dash.development.base_component import Component

from zerosim.figures import efficiency, scores
from zerosim.figures.palette import Theme
from zerosim.validation.board import Scoreboard
from zerosim.validation.published import Published
from zerosim.validation.score import Scored, worst
from zerosim_app.components.cards import panel
from zerosim_app.components.scores.parts import Row, assumed, framed
from zerosim_app.components.tables import Column, table
from zerosim_app.urlstate import AccuracyState

_ROWS: Final = (
    Column("row_id", "Row", parts=2),
    Column("source", "Source", parts=4),
    Column("split", "Split", parts=2),
    Column("model", "Model", parts=3),
    Column("gpu", "GPU", parts=4),
    Column("n_gpus", "GPUs", "count", parts=2),
    Column("predicted_ns", "Predicted", "ns", parts=3),
    Column("measured_ns", "Measured", "ns", parts=3),
    Column(
        "error", "Error", "percent", parts=3, tip="ln(predicted / measured): above 0 is too slow"
    ),
    Column("null", "Null", "percent", parts=3, tip="The same of: every FLOP takes the same time"),
    Column("assumed", "Assumed", parts=4, told=True, tip="What stands for blanks of the source"),
)
_GROUPS: Final = (
    Column("group", "Group"),
    Column("source", "Source", wide=True),
    Column("split", "Split"),
    Column("from_gpus", "From GPUs", "count"),
    Column("to_gpus", "To GPUs", "count"),
    Column("predicted", "Predicted", "percent"),
    Column("measured", "Measured", "percent"),
    Column("points", "Error, points", "points"),
)


def steps(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
    """The cloud of the rows that are asked for, their errors, and the rows themselves."""
    board = published.steps
    rows = chosen(board, state)
    sources = list(dict.fromkeys(row.source_id for row in board.rows))
    kept = worst(rows)
    return [
        html.Div(
            [
                framed(
                    "Predicted against measured", "acc-cloud",
                    scores.cloud(rows, sources, theme), "a point a row; bands of 5 % and 20 %",
                ),
                framed("Spread of the errors", "acc-spread", scores.spread(rows, theme)),
            ],
            className="zs-scores",
        ),
        framed(
            "Beside the null model", "acc-bars", scores.bars(rows, state.by, theme),
            "median, and the 90th percentile as a line",
        ),
        *_others(board, theme),
        panel(
            "Rows, worst first",
            table("acc-rows", _ROWS, [_row(row) for row in kept], label="Rows, worst first"),
            note=f"{len(kept)} rows",
        ),
    ]  # fmt: skip


def scaling(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
    """Scaling efficiency of the groups that these rows belong to."""
    board = published.steps
    groups = {row.scaling_group for row in chosen(board, state)}
    found = [one for one in board.efficiencies if one.group in groups]
    rows = [
        {
            "group": one.group,
            "source": one.source_id,
            "split": one.split,
            "from_gpus": one.from_gpus,
            "to_gpus": one.to_gpus,
            "predicted": one.predicted,
            "measured": one.measured,
            "points": one.points,
        }
        for one in sorted(found, key=lambda one: -abs(one.points))
    ]
    label = "Scaling groups, worst first"
    return [
        framed(
            "Scaling efficiency", "acc-scaling", efficiency.efficiency(found, theme),
            "tokens a second and GPU, largest count over smallest",
        ),
        panel("Groups, worst first", table("acc-groups", _GROUPS, rows, label=label)),
    ]  # fmt: skip


def chosen(board: Scoreboard, state: AccuracyState) -> list[Scored]:
    """The rows that are asked for; a filter that names nothing there is leaves everything in."""
    suite = board.suite(state.suite)
    inside = None if suite is None else set(suite.worst)
    rows = [row for row in board.rows if inside is None or row.row_id in inside]
    for fact, value in (("split", state.split), ("source", state.source), ("gpu", state.gpu)):
        if value in options(board)[fact]:
            rows = [row for row in rows if _fact(row, fact) == value]
    return rows


def options(board: Scoreboard) -> dict[str, Sequence[str]]:
    """What each filter may be."""
    return {
        fact: sorted({_fact(row, fact) for row in board.rows})
        for fact in ("split", "source", "gpu")
    }


def _fact(row: Scored, fact: str) -> str:
    return row.split if fact == "split" else row.facts[fact]


def _others(board: Scoreboard, theme: Theme) -> list[html.Section]:
    suite = board.suite("multi-node-fsdp")
    if suite is None:
        return []
    drawn = scores.others(suite, board.peers, theme)
    return [framed("Beside others", "acc-others", drawn, "unseen FSDP runs over several nodes")]


def _row(row: Scored) -> Row:
    return {
        "row_id": row.row_id,
        "source": row.source_id,
        "split": row.split,
        "model": row.facts["model"],
        "gpu": row.facts["gpu"],
        "n_gpus": row.n_gpus,
        "predicted_ns": row.predicted_s * 1e9,
        "measured_ns": row.measured_s * 1e9,
        "error": row.ln_ratio,
        "null": row.null_ln_ratio,
        "assumed": assumed(row.defaults),
    }
