"""The scoreboard on a page: its tiles, its figures and its tables, of the rows that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from zerosim.figures import busbw, efficiency, scores
from zerosim.figures.palette import Theme
from zerosim.figures.theme import Drawing
from zerosim.validation.board import Scoreboard
from zerosim.validation.collectives import SeriesScore
from zerosim.validation.published import Published
from zerosim.validation.reasons import reasons
from zerosim.validation.score import Scored, worst
from zerosim_app.components.cards import drawing, panel, tile
from zerosim_app.components.tables import Column, table
from zerosim_app.urlstate import AccuracyState, Scores

VIEWS: Final[dict[Scores, str]] = {
    "steps": "Steps",
    "scaling": "Scaling",
    "collectives": "Collectives",
    "left": "Left out",
}
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
_REASONS: Final = (
    Column("source", "Source"),
    Column("n", "Rows", "count"),
    Column("wanted", "Wanted", tip="Whether it was meant to be scored"),
    Column("why", "Why", parts=8, told=True),
)
_FILLED: Final = (Column("what", "Assumed", wide=True), Column("n", "Rows", "count"))
Row = dict[str, Any]


def tiles(published: Published) -> html.Div:
    """How far off the simulator is, in a handful of numbers."""
    board = published.steps
    return html.Div(
        [*_suite(board, "test", "Unseen steps"), *_suite(board, "mosaicml", "MosaicML FSDP"),
         _scaling(board), _collectives(published)],
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


def chosen(board: Scoreboard, state: AccuracyState) -> list[Scored]:
    """The rows that are asked for; a filter that names nothing there is leaves everything in."""
    suite = board.suite(state.suite)
    inside = None if suite is None else set(suite.worst)
    rows = [row for row in board.rows if inside is None or row.row_id in inside]
    for fact, value in (("split", state.split), ("source", state.source), ("gpu", state.gpu)):
        if value in options(board)[fact]:
            rows = [row for row in rows if _fact(row, fact) == value]
    return rows


def shown(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
    """The view that is open, of the rows that are asked for."""
    return _VIEWS[state.view](published, state, theme)


def _steps(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
    board = published.steps
    rows = chosen(board, state)
    sources = list(dict.fromkeys(row.source_id for row in board.rows))
    kept = worst(rows)
    return [
        html.Div(
            [
                _drawn(
                    "Predicted against measured", "acc-cloud",
                    scores.cloud(rows, sources, theme), "a point a row; bands of 5 % and 20 %",
                ),
                _drawn("Spread of the errors", "acc-spread", scores.spread(rows, theme)),
            ],
            className="zs-scores",
        ),
        _drawn(
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


def _drawn(title: str, id_: str, drawn: Drawing, note: str | None = None) -> html.Section:
    return panel(title, drawing(id_, drawn), note=note)


def _others(board: Scoreboard, theme: Theme) -> list[html.Section]:
    suite = board.suite("multi-node-fsdp")
    if suite is None:
        return []
    drawn = scores.others(suite, board.peers, theme)
    return [_drawn("Beside others", "acc-others", drawn, "unseen FSDP runs over several nodes")]


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
        "assumed": ", ".join(f"{column} = {value}" for column, value, _ in row.defaults),
    }


def _groups(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
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
        _drawn(
            "Scaling efficiency", "acc-scaling", efficiency.efficiency(found, theme),
            "tokens a second and GPU, largest count over smallest",
        ),
        panel("Groups, worst first", table("acc-groups", _GROUPS, rows, label=label)),
    ]  # fmt: skip


def _series(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
    found = published.collectives
    names = series_of(published)
    name = state.series if state.series in names else names[0]
    mine = [row for row in found.rows if row.series == name]
    kept = [score for score in found.series if state.split in (None, score.split)]
    label = "Measured series of collectives, worst first"
    return [
        _drawn(
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


def _left(published: Published, _state: AccuracyState, _theme: Theme) -> list[Component]:
    board = published.steps
    every = sorted(reasons(board.left_out), key=lambda one: (not one.wanted, -one.n))
    left = [
        {"source": r.source_id, "n": r.n, "wanted": "yes" if r.wanted else "no", "why": r.sentence}
        for r in every
    ]
    filled = [{"what": what, "n": n} for what, n in board.filled]
    return [
        panel(
            "Rows left out",
            table("acc-left", _REASONS, left, label="Why rows are left out", max_rows=16),
            note=f"{len(board.left_out)} rows",
        ),
        panel(
            "Blanks that were filled",
            table("acc-filled", _FILLED, filled, label="Documented defaults, counted"),
            note="each is listed with its row",
        ),
    ]


_VIEWS: Final[dict[Scores, Callable[[Published, AccuracyState, Theme], list[Component]]]] = {
    "steps": _steps,
    "scaling": _groups,
    "collectives": _series,
    "left": _left,
}


def options(board: Scoreboard) -> dict[str, Sequence[str]]:
    """What each filter may be."""
    return {
        fact: sorted({_fact(row, fact) for row in board.rows})
        for fact in ("split", "source", "gpu")
    }


def _fact(row: Scored, fact: str) -> str:
    return row.split if fact == "split" else row.facts[fact]
