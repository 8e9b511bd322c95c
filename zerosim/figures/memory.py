"""Memory of one rank over time, stacked by what it is for, its peak marked, what is reserved above."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl

from zerosim.figures.palette import INK, MEMORY, MUTED, OPS, Theme
from zerosim.figures.scale import byte_scale, time_scale
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.trace import Trace
from zerosim.units import format_bytes, format_ns

MAX_POINTS: Final = 2_000
TOTALS: Final = ("memory.in_use", "memory.allocated", "memory.reserved")
"""What is drawn of a run that does not know kinds: the first that it has."""
RESERVED: Final = "memory.reserved"
"""Drawn as a line over the kinds, if the run knows it."""

RESIDENT: Final = "memory.rss"
"""What the operating system says of the process: told, not drawn, since it is mostly libraries."""


def memory(trace: Trace, rank: int, theme: Theme) -> Drawing:
    """What `rank` holds over the run; bytes by kind if the run knows kinds, else in total.

    The sentence says what stands at the peak, most first.
    """
    samples = trace.samples.filter(pl.col("rank") == rank).with_columns(
        pl.col("counter").cast(pl.String)
    )
    wide = _wide(samples)
    if wide is None:
        return nothing(theme, f"This run has no memory samples of rank {rank}.")
    kinds = [k for k in MEMORY if f"memory.{k}" in wide.columns and wide[f"memory.{k}"].max()]
    totals: list[str] = [c for c in TOTALS if c in wide.columns]
    columns = [f"memory.{kind}" for kind in kinds] or totals[:1]
    wide = _thin(wide, wide.select(pl.sum_horizontal(columns)).to_series())
    return _draw(wide, columns, trace.begin_ns, rank, theme)


def _wide(samples: pl.DataFrame) -> pl.DataFrame | None:
    """A column a counter, a row a time, each counter carried on until it changes."""
    kept = samples.filter(pl.col("counter").str.starts_with("memory."))
    if not kept.height:
        return None
    return (
        kept.pivot(on="counter", index="time_ns", values="value", aggregate_function="last")
        .sort("time_ns")
        .with_columns(pl.exclude("time_ns").forward_fill().fill_null(0))
    )


def _thin(wide: pl.DataFrame, height: pl.Series) -> pl.DataFrame:
    """At most MAX_POINTS rows: the highest of each stretch of time, so that no peak is lost."""
    if wide.height <= MAX_POINTS:
        return wide
    stretch = np.arange(wide.height) * MAX_POINTS // wide.height
    order = np.lexsort((-height.to_numpy(), stretch))
    first = np.unique(stretch[order], return_index=True)[1]
    keep = np.unique(np.append(order[first], (0, wide.height - 1)))
    return wide[keep]


def _draw(wide: pl.DataFrame, columns: list[str], begin: int, rank: int, theme: Theme) -> Drawing:
    times = (wide["time_ns"] - begin).to_list()
    heights = wide.select(pl.sum_horizontal(columns)).to_series().to_list()
    reserved = wide[RESERVED].to_list() if RESERVED in set(wide.columns) - {*columns} else []
    peak = max(heights)
    clock, size = time_scale(max(abs(t) for t in times)), byte_scale(max(peak, *reserved, 0))
    figure = blank(theme, x=f"time, {clock.unit}", y=f"rank {rank}, {size.unit}", height=340)
    for column in columns:
        kind = column.removeprefix("memory.")
        swatch = MEMORY.get(kind, OPS["forward"])
        values = wide[column].to_list()
        _area(figure, clock(times), size(values), [format_bytes(v) for v in values],
              swatch.label if kind in MEMORY else kind, swatch[theme])  # fmt: skip
    at = heights.index(peak)
    _mark_peak(figure, clock(times)[at], peak / size.size, format_bytes(peak), theme)
    top = size([max(peak, *reserved, 0)])[0]
    figure.update_yaxes(range=[0, top * 1.18])
    if reserved:
        _line(figure, clock(times), size(reserved), [format_bytes(v) for v in reserved], theme)
    parts = _parts({c.removeprefix("memory."): wide[c][at] for c in columns})
    said = f"Rank {rank} peaks at {format_bytes(peak)} after {format_ns(times[at])}{parts}."
    more = f" At most {format_bytes(max(reserved))} are reserved." if reserved else ""
    resident = max(wide[RESIDENT].to_list()) if RESIDENT in wide.columns else 0
    more += f" At most {format_bytes(resident)} of its process are resident." if resident else ""
    return Drawing(figure, said + more)


def _parts(at_peak: dict[str, int]) -> str:
    """What stands at the peak, most first; nothing if the run does not know kinds."""
    held = sorted(((n, kind) for kind, n in at_peak.items() if n and kind in MEMORY), reverse=True)
    words = [f"{MEMORY[kind].label} {format_bytes(n)}" for n, kind in held]
    return f": {', '.join(words)}" if words else ""


def _line(
    figure: go.Figure, x: list[float], y: list[float], texts: list[str], theme: Theme
) -> None:
    figure.add_scatter(
        x=x,
        y=y,
        name="reserved",
        mode="lines",
        line={"shape": "hv", "width": 1.5, "color": INK[theme], "dash": "dot"},
        customdata=texts,
        hovertemplate="reserved: %{customdata}<extra></extra>",
    )


def _area(
    figure: go.Figure,
    x: list[float],
    y: list[float],
    texts: list[str],
    name: str,
    colour: str,
) -> None:
    figure.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="lines",
        stackgroup="memory",
        line={"shape": "hv", "width": 0, "color": colour},
        fillcolor=colour,
        customdata=texts,
        hovertemplate=f"{name}: %{{customdata}}<extra></extra>",
    )


def _mark_peak(figure: go.Figure, x: float, y: float, text: str, theme: Theme) -> None:
    figure.add_annotation(
        x=x,
        y=y,
        text=f"peak {text}",
        showarrow=True,
        arrowhead=0,
        arrowcolor=MUTED[theme],
        ax=0,
        ay=-18,
        font={"size": 11, "color": INK[theme]},
    )
