"""Measured memory against what is predicted: peaks, reserved memory and states, in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from zerosim.figures.diagonal import diagonal, mark
from zerosim.figures.palette import Theme
from zerosim.figures.theme import Drawing, nothing
from zerosim.units import format_bytes
from zerosim.validation.memory import MemoryScore


def held(rows: Sequence[MemoryScore], theme: Theme) -> Drawing:
    """A point a figure; rows whose figure is a number of parameters are left out."""
    found = [row for row in rows if not row.in_parameters]
    if not found:
        return nothing(theme, "No measured memory is left: choose fewer filters.", height=520)
    values = [value / 1e9 for row in found for value in (row.measured, row.predicted)]
    figure = diagonal(min(values), max(values), "memory of a rank, GB", theme)
    sources = list(dict.fromkeys(row.source_id for row in found))
    named: set[str] = set()
    for source, split in sorted({(row.source_id, row.split) for row in found}):
        mine = [row for row in found if (row.source_id, row.split) == (source, split)]
        figure.add_scatter(
            x=[row.measured / 1e9 for row in mine],
            y=[row.predicted / 1e9 for row in mine],
            mode="markers",
            name=source,
            legendgroup=source,
            showlegend=source not in named,
            marker=mark(sources.index(source), split, theme),
            customdata=[_told(row) for row in mine],
            hovertemplate="%{customdata}<extra></extra>",
        )
        named.add(source)
    return Drawing(figure, _sentence(found))


def _told(row: MemoryScore) -> str:
    predicted, measured = format_bytes(row.predicted), format_bytes(row.measured)
    lines = [
        f"<b>{row.row_id}</b> {row.source_id} ({row.split})",
        f"{row.figure}: predicted {predicted}, measured {measured}, {100 * row.ln_ratio:+.1f} %",
        *(f"assumed {column} = {value}" for column, value, _ in row.defaults),
    ]
    return "<br>".join(lines)


def _sentence(rows: Sequence[MemoryScore]) -> str:
    worst = max(rows, key=lambda row: abs(row.ln_ratio))
    middle = median(abs(row.ln_ratio) for row in rows)
    return (
        f"{len(rows)} figures, half of them within {middle:.1%}; the furthest off is {worst.row_id} "
        f"({worst.source_id}, {worst.figure}), by {100 * worst.ln_ratio:+.0f} %. "
        "Filled: nothing was fitted on them. Open: constants may be."
    )
