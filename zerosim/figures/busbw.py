"""Bus bandwidth of a measured series of collectives against size, measured and predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from zerosim.collectives import bus_factor
from zerosim.figures.palette import Theme, op_colour
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.kinds import Kind
from zerosim.units import format_bytes, format_ns
from zerosim.validation.collectives import Predicted

_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Lines of one colour: collectives that have the same one, or other numbers of ranks."""
_SYMBOLS: Final = ("circle-open", "square-open", "triangle-up-open", "diamond-open", "cross-open")
_WIDE: Final = 4
"""Rates that differ by more are drawn on a logarithmic axis."""
_FEW: Final = 40
_RATES: Final = tuple(digit * 10.0**power for power in range(-3, 4) for digit in (1, 3))
_TICKS: Final = tuple(2**power for power in range(10, 42, 5))


def busbw(rows: Sequence[Predicted], theme: Theme) -> Drawing:
    """Points as measured, lines as predicted; the collective decides the colour.

    A series of one size among several numbers of ranks is drawn over these.
    """
    if not rows:
        return nothing(theme, "This series has no row that could be predicted.", height=420)
    over_ranks = len({row.nbytes for row in rows}) == 1 < len({row.n_ranks for row in rows})
    figure = blank(theme, y="bus bandwidth, GB/s", height=420)
    seen: dict[str, int] = {}
    for mine in _curves(rows, over_ranks=over_ranks):
        colour = op_colour(Kind(mine[0].kind), theme)
        place = seen[colour] = seen.get(colour, -1) + 1
        name = mine[0].kind.replace("_", "-")
        named = name if over_ranks else f"{name}, {mine[0].n_ranks} ranks"
        x = [row.n_ranks if over_ranks else row.nbytes for row in mine]
        _curve(figure, named, mine, x, _look(colour, place))
    _axes(figure, rows, over_ranks=over_ranks)
    return Drawing(figure, _sentence(rows))


def _curves(rows: Sequence[Predicted], *, over_ranks: bool) -> Iterator[list[Predicted]]:
    groups: dict[tuple[str, int], list[Predicted]] = {}
    for row in sorted(rows, key=lambda row: (row.kind, row.n_ranks, row.nbytes)):
        groups.setdefault((row.kind, 0 if over_ranks else row.n_ranks), []).append(row)
    yield from groups.values()


def _look(colour: str, place: int) -> dict[str, Any]:
    """How a curve looks that is the `place`-th of its colour."""
    return {
        "line": {"color": colour, "width": 2, "dash": _DASHES[place % len(_DASHES)]},
        "marker": {
            "color": colour,
            "size": 9,
            "symbol": _SYMBOLS[place % len(_SYMBOLS)],
            "line": {"width": 2, "color": colour},
        },
    }


def _curve(
    figure: go.Figure,
    name: str,
    rows: Sequence[Predicted],
    x: Sequence[int],
    look: dict[str, Any],
) -> None:
    measured = [_rate(row, row.measured_s) for row in rows]
    predicted = [_rate(row, row.predicted_s) for row in rows]
    single = len(set(x)) == 1
    alone = {"marker": {**look["marker"], "symbol": "x-thin"}} if single else look
    for label, values, mode, shape in (
        ("measured", measured, "markers", look),
        ("predicted", predicted, "markers" if single else "lines", alone),
    ):
        figure.add_scatter(
            x=list(x),
            y=values,
            mode=mode,
            name=f"{name}, {label}",
            customdata=[_told(row) for row in rows],
            hovertemplate=f"{name}, {label}: %{{y:.4g}} GB/s<br>%{{customdata}}<extra></extra>",
            **{key: value for key, value in shape.items() if mode == "lines" or key == "marker"},
        )


def _axes(figure: go.Figure, rows: Sequence[Predicted], *, over_ranks: bool) -> None:
    """Logarithmic, but for rates that are much alike, and for ranks."""
    rates = [_rate(row, seconds) for row in rows for seconds in (row.measured_s, row.predicted_s)]
    if max(rates) > _WIDE * min(rates):
        rated = {"tickvals": _RATES, "ticktext": [f"{rate:g}" for rate in _RATES]}
        figure.update_yaxes(type="log", **rated)
    else:
        figure.update_yaxes(rangemode="tozero")
    if over_ranks:
        figure.update_xaxes(title={"text": "ranks"}, dtick=1 if len(rows) < _FEW else None)
        return
    sizes = sorted({row.nbytes for row in rows})
    within = [tick for tick in _TICKS if sizes[0] / 33 <= tick <= sizes[-1] * 33]
    ticks = within if len(sizes) > len(within) else sizes
    shown = {"tickvals": ticks, "ticktext": [_size(tick) for tick in ticks]}
    figure.update_xaxes(title={"text": "size, bytes"}, type="log", **shown)


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
