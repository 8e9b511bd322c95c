"""Bus bandwidth of a measured series of collectives against size, measured and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from zerosim.figures.palette import Theme, op_colour
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.kinds import Kind
from zerosim.units import format_bytes, format_ns
from zerosim.validation.collectives import Predicted
from zerosim.validation.measured import bus_factor

_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Lines of one colour: collectives that have the same one, or other numbers of ranks."""
_SYMBOLS: Final = ("circle-open", "square-open", "triangle-up-open", "diamond-open", "cross-open")
_RATES: Final = tuple(digit * 10.0**power for power in range(-3, 4) for digit in (1, 3))
_TICKS: Final = tuple(2**power for power in range(10, 42, 5))


def busbw(rows: Sequence[Predicted], theme: Theme) -> Drawing:
    """Points as measured, lines as predicted; the collective decides the colour."""
    if not rows:
        return nothing(theme, "This series has no row that could be predicted.", height=420)
    figure = blank(theme, x="size, bytes", y="bus bandwidth, GB/s", height=420)
    seen: dict[str, int] = {}
    for kind, n_ranks in sorted({(row.kind, row.n_ranks) for row in rows}):
        colour = op_colour(Kind(kind), theme)
        place = seen[colour] = seen.get(colour, -1) + 1
        mine = sorted(
            (row for row in rows if (row.kind, row.n_ranks) == (kind, n_ranks)),
            key=lambda row: row.nbytes,
        )
        _curve(figure, mine, colour, place)
    sizes = [row.nbytes for row in rows]
    ticks = [tick for tick in _TICKS if min(sizes) / 33 <= tick <= max(sizes) * 33]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[_size(tick) for tick in ticks])
    figure.update_yaxes(type="log", tickvals=_RATES, ticktext=[f"{rate:g}" for rate in _RATES])
    return Drawing(figure, _sentence(rows))


def _curve(figure: go.Figure, rows: Sequence[Predicted], colour: str, place: int) -> None:
    kind, n_ranks = rows[0].kind, rows[0].n_ranks
    name = f"{kind.replace('_', '-')}, {n_ranks} ranks"
    look = {
        "measured": ("markers", [_rate(row, row.measured_s) for row in rows]),
        "predicted": ("lines", [_rate(row, row.predicted_s) for row in rows]),
    }
    for label, (mode, values) in look.items():
        alone = len(rows) == 1 and label == "predicted"
        figure.add_scatter(
            x=[row.nbytes for row in rows],
            y=values,
            mode="markers" if alone else mode,
            name=f"{name}, {label}",
            line={"color": colour, "width": 2, "dash": _DASHES[place % len(_DASHES)]},
            marker={
                "color": colour,
                "size": 8,
                "symbol": "line-ew-open" if alone else _SYMBOLS[place % len(_SYMBOLS)],
                "line": {"width": 2},
            },
            customdata=[_told(row) for row in rows],
            hovertemplate=f"{name}, {label}: %{{y:.4g}} GB/s<br>%{{customdata}}<extra></extra>",
        )


def _rate(row: Predicted, seconds: float) -> float:
    return row.nbytes / seconds * bus_factor(Kind(row.kind), row.n_ranks) / 1e9


def _told(row: Predicted) -> str:
    times = [format_ns(seconds * 1e9) for seconds in (row.predicted_s, row.measured_s)]
    lines = [
        f"{format_bytes(row.nbytes)}: predicted {times[0]}, measured {times[1]}, {row.error:+.1%}",
        row.by,
        *(f"assumed {text}" for text in row.assumed),
    ]
    return "<br>".join(filter(None, lines))


def _size(nbytes: int) -> str:
    return next(
        f"{nbytes // size} {unit}"
        for size, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
        if nbytes >= size
    )


def _sentence(rows: Sequence[Predicted]) -> str:
    worst = max(rows, key=lambda row: abs(row.error))
    mean = sum(abs(row.error) for row in rows) / len(rows)
    return (
        f"{rows[0].series} on {rows[0].cluster} ({rows[0].split}): {len(rows)} rows, off by "
        f"{mean:.1%} on average and by {abs(worst.error):.1%} at the most, at "
        f"{_size(worst.nbytes)}. Points are measured, lines predicted."
    )
