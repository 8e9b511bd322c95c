"""One step of one rank as bars, a lane a stream: what a schedule looks like at a glance."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from zerosim.analysis.steps import steady_step
from zerosim.figures.palette import OPS, ROLE, Theme, text_on
from zerosim.figures.scale import time_scale
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.kinds import Kind
from zerosim.trace import Trace
from zerosim.units import format_ns

MAX_BARS: Final = 600
"""Beyond so many, neighbours of one kind are drawn as one bar: the timeline of a kept run zooms."""
_NEAR: Final = 1 / 500
"""Share of the step by which neighbours may be apart."""
_LABEL_FROM: Final = 0.028
"""Share of the step from which a bar has room for its name."""
_ROW_PX: Final = 34


def lanes(trace: Trace, rank: int, theme: Theme) -> Drawing:
    """The first steady step of `rank`: ops that take time, by stream, in the order of their start."""
    step = steady_step(trace)
    rows = (
        trace.spans.filter(
            (pl.col("rank") == rank)
            & (pl.col("step") == step)
            & (pl.col("end_ns") > pl.col("start_ns"))
        )
        .with_columns(pl.col("stream", "kind", "name").cast(pl.String))
        .select("stream", "kind", "name", "start_ns", "end_ns")
    )
    if rows.is_empty():
        return nothing(theme, f"Rank {rank} has no complete step to draw.")
    if rows.height <= MAX_BARS:
        return Drawing(_drawn(rows, theme), _sentence(rows, rank, step))
    return Drawing(
        _drawn(_joined(rows), theme),
        f"{_sentence(rows, rank, step)} Neighbours of one kind are drawn as one bar: keep it as a run "
        "to see each on a timeline that zooms.",
    )


def _joined(rows: pl.DataFrame) -> pl.DataFrame:
    """Neighbours of one stream and kind as one bar, named by the first and the last."""
    near = _NEAR * (max(rows["end_ns"].to_list()) - min(rows["start_ns"].to_list()))
    start, before = pl.col("start_ns"), pl.col("end_ns").cum_max().shift(1).over("stream")
    other = (pl.col("kind") != pl.col("kind").shift(1).over("stream")) | (start > before + near)
    runs = rows.sort("stream", "start_ns", maintain_order=True).with_columns(
        run=other.fill_null(value=True).cum_sum()
    )
    first, last = pl.col("name").first(), pl.col("name").last()
    joined = runs.group_by("stream", "kind", "run", maintain_order=True).agg(
        name=pl.when(pl.len() == 1).then(first).otherwise(pl.format("{} to {}", first, last)),
        start_ns=pl.col("start_ns").min(),
        end_ns=pl.col("end_ns").max(),
    )
    order = {stream: i for i, stream in enumerate(rows["stream"].unique(maintain_order=True))}
    return joined.sort(pl.col("stream").replace_strict(order), "start_ns").drop("run")


def _drawn(rows: pl.DataFrame, theme: Theme) -> Any:  # noqa: ANN401 - a plotly figure
    streams = rows["stream"].unique(maintain_order=True).to_list()
    begin = min(rows["start_ns"].to_list())
    length = max(rows["end_ns"].to_list()) - begin
    clock = time_scale(length)
    figure = blank(theme, x=f"time of the step, {clock.unit}", height=90 + _ROW_PX * len(streams))
    figure.update_layout(
        barmode="overlay",
        showlegend=False,
        margin={"l": 132, "r": 16, "t": 10, "b": 44},
        yaxis={
            "autorange": "reversed",
            "type": "category",
            "title": None,
            "categoryarray": [stream.replace("_", "-") for stream in streams],
        },
    )
    for (role,), part in rows.with_columns(
        role=pl.col("kind").map_elements(lambda k: ROLE[Kind(k)], pl.String)
    ).group_by("role", maintain_order=True):
        swatch = OPS[str(role)]
        took = [end - start for start, end in part.select("start_ns", "end_ns").iter_rows()]
        names = part["name"].to_list()
        figure.add_bar(
            y=[stream.replace("_", "-") for stream in part["stream"]],
            x=clock(took),
            base=clock([start - begin for start in part["start_ns"]]),
            orientation="h",
            name=swatch.label,
            marker={"color": swatch[theme], "line": {"width": 0.5, "color": "rgba(0,0,0,0.25)"}},
            text=[n if t >= _LABEL_FROM * length else "" for n, t in zip(names, took, strict=True)],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": text_on(swatch[theme]), "size": 11},
            customdata=[
                [n, format_ns(t), format_ns(s - begin)]
                for n, t, s in zip(names, took, part["start_ns"], strict=True)
            ],
            hovertemplate="%{customdata[0]}: %{customdata[1]} from %{customdata[2]}<extra></extra>",
        )
    return figure


def _sentence(rows: pl.DataFrame, rank: int, step: int | None) -> str:
    length = max(rows["end_ns"].to_list()) - min(rows["start_ns"].to_list())
    streams = rows["stream"].n_unique()
    return (
        f"Step {step} of rank {rank}: {rows.height} ops on {streams} "
        f"stream{'' if streams == 1 else 's'} in {format_ns(length)}."
    )
