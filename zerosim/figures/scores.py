"""Predicted against measured: the cloud of all rows, the spread of their errors, and errors by fact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median_high
from typing import Any, Final

import plotly.graph_objects as go

from zerosim.figures.diagonal import MARGIN, NARROW, WIDE, diagonal, mark
from zerosim.figures.palette import INK, LAUNCH, MUTED, OPS, Swatch, Theme
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.units import format_ns
from zerosim.validation.board import Peer, Suite
from zerosim.validation.score import Scored, by_fact, errors, null_ratio

_PARTIAL: Final = 0.4
"""Opacity of rows that are incomplete in their source."""
_OURS: Final = replace(OPS["forward"], label="simulated")
_NULL: Final = replace(LAUNCH, label="every FLOP takes the same time")
_PEERS: Final = replace(OPS["all_gather"], label="published by others")
_NONE: Final = "No row is left: choose fewer filters."
_BIN: Final = 0.02
_SPREAD: Final = 0.6
"""Errors beyond stand in the outermost bins."""


def cloud(rows: Sequence[Scored], sources: Sequence[str], theme: Theme) -> Drawing:
    """Every row as a point, both axes logarithmic; the colour of a source is its place in `sources`."""
    if not rows:
        return nothing(theme, _NONE, height=520)
    low = min(min(row.measured_s, row.predicted_s) for row in rows)
    high = max(max(row.measured_s, row.predicted_s) for row in rows)
    figure = diagonal(low, high, "step, s", theme)
    named: set[str] = set()
    for source, split in sorted({(row.source_id, row.split) for row in rows}):
        mine = [row for row in rows if (row.source_id, row.split) == (source, split)]
        look = mark(sources.index(source), split, theme)
        _points(figure, mine, look, first=source not in named)
        named.add(source)
    return Drawing(figure, _within(rows))


def _points(
    figure: go.Figure, rows: Sequence[Scored], look: dict[str, Any], *, first: bool
) -> None:
    pale = [1.0 if row.simulatable == "yes" else _PARTIAL for row in rows]
    figure.add_scatter(
        x=[row.measured_s for row in rows],
        y=[row.predicted_s for row in rows],
        mode="markers",
        name=rows[0].source_id,
        legendgroup=rows[0].source_id,
        showlegend=first,
        marker=look | {"opacity": pale},
        customdata=[_told(row) for row in rows],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _told(row: Scored) -> str:
    """What the pointer shows of a row: which, how far off, and what was assumed."""
    about = (row.facts.get("model"), row.facts.get("gpu"), f"{row.n_gpus} GPUs")
    predicted, measured = (format_ns(s * 1e9) for s in (row.predicted_s, row.measured_s))
    lines = [
        f"<b>{row.row_id}</b> {row.source_id} ({row.split})",
        ", ".join(filter(None, about)),
        f"predicted {predicted}, measured {measured}: {percent(row.ln_ratio)}",
    ]
    if row.simulatable != "yes":
        lines.append("its source leaves something out")
    lines += [f"assumed {column} = {value}" for column, value, _ in row.defaults]
    return "<br>".join(lines)


def percent(ln_ratio: float) -> str:
    """The error of a row as people read it, with its sign."""
    return f"{100 * ln_ratio:+.1f} %"


def _within(rows: Sequence[Scored]) -> str:
    near, far = (sum(abs(row.ln_ratio) <= math.log1p(b) for row in rows) for b in (NARROW, WIDE))
    slow = sum(row.ln_ratio > 0 for row in rows)
    return (
        f"Of {len(rows)} rows {near} are predicted within 5 % and {far} within 20 %; "
        f"{slow} are predicted slower than measured, {len(rows) - slow} faster. "
        "Filled: nothing was fitted on them. Open: constants may be. Pale: incomplete in the source."
    )


def spread(rows: Sequence[Scored], theme: Theme) -> Drawing:
    """How the errors are spread, beside those of the null model."""
    if not rows:
        return nothing(theme, _NONE, height=520)
    figure = blank(theme, x="ln(predicted / measured)", y="share of rows, %", height=520)
    ours = [row.ln_ratio for row in rows]
    theirs = [found for row in rows if (found := row.null_ln_ratio) is not None]
    for values, swatch in ((theirs, _NULL), (ours, _OURS)):
        if values:
            _histogram(figure, values, swatch, theme)
    figure.update_layout(barmode="overlay", bargap=0, margin={**MARGIN, "t": 64})
    figure.update_xaxes(tickformat="+.0%", zeroline=True, zerolinecolor=INK[theme])
    return Drawing(figure, _spread_sentence(ours, theirs))


def _histogram(figure: go.Figure, values: Sequence[float], swatch: Swatch, theme: Theme) -> None:
    cut = [min(max(value, -_SPREAD), _SPREAD) for value in values]
    figure.add_histogram(
        x=cut,
        name=swatch.label,
        histnorm="percent",
        xbins={"start": -_SPREAD - _BIN / 2, "end": _SPREAD + _BIN / 2, "size": _BIN},
        marker={"color": swatch[theme]},
        opacity=0.75,
        hovertemplate="%{x}: %{y:.1f} % of rows<extra>" + swatch.label + "</extra>",
    )


def _spread_sentence(ours: Sequence[float], theirs: Sequence[float]) -> str:
    text = f"The errors have their middle at {percent(median_high(ours))}"
    if theirs:
        text += f", those of the null model at {percent(median_high(theirs))}"
    return f"{text}; those beyond ±60 % stand at the edges."


def bars(rows: Sequence[Scored], fact: str, theme: Theme) -> Drawing:
    """Median error of each value of a fact, beside the null model's; the 90th percentile as a line."""
    groups = {f"{value or 'not stated'}": some for value, some in by_fact(rows, fact).items()}
    if not groups:
        return nothing(theme, _NONE)
    height = 110 + 46 * len(groups)
    figure = blank(theme, x="error of the step, %", height=height)
    ours = {name: errors(some) for name, some in groups.items()}
    null = {name: errors(some, null_ratio) for name, some in groups.items()}
    for found, swatch in ((ours, _OURS), (null, _NULL)):
        known = {name: e for name, e in found.items() if e is not None}
        medians = [100 * e.median for e in known.values()]
        figure.add_bar(
            y=list(known),
            x=medians,
            orientation="h",
            name=swatch.label,
            marker={"color": swatch[theme]},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [100 * (e.p90 - e.median) for e in known.values()],
                "color": MUTED[theme],
                "thickness": 1,
                "width": 3,
            },
            customdata=[f"{e.n_rows} rows, mean {e.mean:.1%}, 90 % within {e.p90:.1%}"
                        for e in known.values()],
            hovertemplate="%{y}: median %{x:.1f} %, %{customdata}<extra>" + swatch.label + "</extra>",
        )  # fmt: skip
    figure.update_layout(barmode="group", margin={"l": 168, "r": 24, "t": 40, "b": 44}, bargap=0.3)
    figure.update_yaxes(autorange="reversed", type="category", title=None)
    figure.update_xaxes(rangemode="tozero")
    return Drawing(figure, _bars_sentence(fact, rows))


def _bars_sentence(fact: str, rows: Sequence[Scored]) -> str:
    ours, null = errors(rows), errors(rows, null_ratio)
    if ours is None:
        return _NONE
    beside = "" if null is None else f", that of the null model {null.median:.1%}"
    return (
        f"By {fact}. Over all of these, every source with the same weight, the median is "
        f"{ours.median:.1%}{beside}. A line ends at the 90th percentile."
    )


def others(suite: Suite, peers: Sequence[Peer], theme: Theme) -> Drawing:
    """Mean errors on runs over several nodes: ours, the null model's, and what others published."""
    found = [("simulated here", suite.errors.mean, f"{suite.errors.n_rows} rows", _OURS)]
    if suite.null is not None:
        beside = (_NULL.label, suite.null.mean, f"{suite.null.n_rows} rows", _NULL)
        found.append(beside)
    found += [(f"{peer.name} *", peer.mean, peer.rows, _PEERS) for peer in peers]
    figure = blank(theme, x="mean error of the step, %", height=90 + 34 * len(found))
    figure.add_bar(
        y=[f"{name}, {rows}" for name, _, rows, _ in found],
        x=[100 * mean for _, mean, _, _ in found],
        orientation="h",
        marker={"color": [swatch[theme] for *_, swatch in found]},
        text=[f"{mean:.1%}" for _, mean, _, _ in found],
        textposition="outside",
        cliponaxis=False,
        textfont={"color": INK[theme]},
        hoverinfo="skip",
    )
    figure.update_yaxes(autorange="reversed", type="category", title=None)
    figure.update_xaxes(rangemode="tozero")
    figure.update_layout(margin={"l": 372, "r": 56, "t": 8, "b": 44}, bargap=0.35)
    text = ", ".join(f"{name} {mean:.1%}" for name, mean, _, _ in found)
    return Drawing(figure, f"{text}. * On rows that may be others.")
