"""Load balance: the bytes that each rank owns, and how long each was busy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import plotly.graph_objects as go

from zerosim.analysis.balance import Load, imbalance, ownership, rank_loads
from zerosim.figures.palette import MEMORY, OPS, Swatch, Theme
from zerosim.figures.scale import byte_scale, time_scale
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.trace import Trace
from zerosim.units import format_bytes, format_ns

MAX_BARS: Final = 64
"""Up to so many ranks each have a bar; beyond, ranks that do the same share one."""
MAX_RANGES: Final = 2
"""A bar names so many ranges of ranks, and counts the others."""
_EVEN: Final = 1.005
"""Below this ratio of the most to the mean, the two read the same."""
_STATES: Final = ("parameters", "gradients", "optimizer")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: the rank or the range of ranks below it, their load, and how many they are."""

    label: str
    load: Load
    n_ranks: int


def states(trace: Trace, theme: Theme) -> Drawing:
    """Bytes of parameters, gradients and optimizer states by rank, stacked."""
    bars = [bar for bar in bars_of(trace) if bar.load.parameters is not None]
    if not bars:
        return nothing(theme, "This run does not say which bytes each rank owns.")
    totals = [sum(getattr(bar.load, kind) for kind in _STATES) for bar in bars]
    scale = byte_scale(max(totals))
    figure = _figure(theme, f"owned states, {scale.unit}", "stack")
    for kind in _STATES:
        values = [getattr(bar.load, kind) for bar in bars]
        _add(figure, MEMORY[kind], theme, bars, scale(values), [format_bytes(v) for v in values])
    return Drawing(figure, _sentence(bars, totals, "owns", format_bytes) + _uneven(trace))


def _uneven(trace: Trace) -> str:
    """How unevenly the optimizer states are spread; nothing if they are spread evenly."""
    found = ownership(trace)
    if found is None or found.max_over_mean == 1:
        return ""
    empty = f"{found.empty_ranks} of {found.n_ranks} ranks own none, and " * bool(found.empty_ranks)
    return (
        f" Of the optimizer states {empty}the largest share is {format_bytes(found.largest_bytes)}, "
        f"{found.max_over_mean:.2f} times the mean."
    )


def busy(trace: Trace, theme: Theme) -> Drawing:
    """How long each rank computed and communicated over the whole run, side by side."""
    bars = [bar for bar in bars_of(trace) if bar.load.compute_ns is not None]
    if not bars:
        return nothing(theme, "This run does not say when its ranks were busy.")
    computes = [bar.load.compute_ns or 0 for bar in bars]
    comms = [bar.load.comm_ns for bar in bars]
    scale = time_scale(max([*computes, *(c for c in comms if c is not None)]))
    figure = _figure(theme, f"busy, {scale.unit}", "group")
    _add(figure, _named("compute", "forward"), theme, bars, scale(computes), _times(computes))
    if None not in comms:
        known = [c for c in comms if c is not None]
        _add(
            figure, _named("communication", "all_gather"), theme, bars, scale(known), _times(known)
        )
    unknown = " Communication times are unknown." if None in comms else ""
    return Drawing(figure, _sentence(bars, computes, "computes for", format_ns) + unknown)


def _times(values: Sequence[int]) -> list[str]:
    return [format_ns(v) for v in values]


def _named(label: str, role: str) -> Swatch:
    return Swatch(label, OPS[role].light, OPS[role].dark)


def _sentence(
    bars: Sequence[Bar], values: Sequence[int], does: str, text: Callable[[int], str]
) -> str:
    ratio = imbalance(tuple(values), tuple(bar.n_ranks for bar in bars))
    if ratio is None or max(values) == min(values):
        return f"Every rank {does} {text(max(values))}: the load is even."
    if ratio < _EVEN:
        return f"Every rank {does} about {text(max(values))}: the load is even."
    most = bars[list(values).index(max(values))]
    who = f"Rank {most.label}" if most.n_ranks == 1 else f"Each of ranks {most.label}"
    return (
        f"{who} {does} the most, {text(max(values))}, {ratio:.2f} times the mean; "
        f"the least is {text(min(values))}."
    )


def bars_of(trace: Trace) -> list[Bar]:
    """A bar for each rank, or where there are many, one for the ranks that do the same."""
    loads = rank_loads(trace)
    n_ranks = sum(last - first + 1 for load in loads for first, last in load.members)
    if n_ranks <= MAX_BARS:
        each = [
            (rank, load)
            for load in loads
            for first, last in load.members
            for rank in range(first, last + 1)
        ]
        return [Bar(str(rank), load, 1) for rank, load in sorted(each, key=lambda pair: pair[0])]
    return [
        Bar(_ranges(load), load, sum(b - a + 1 for a, b in load.members)) for load in _alike(loads)
    ]


def _alike(loads: Sequence[Load]) -> list[Load]:
    """One load for all ranks that own as much and work as long; it names all of them."""
    groups: dict[Load, list[tuple[int, int]]] = {}
    for load in loads:
        ranges = groups.setdefault(replace(load, rank=0, members=()), [])
        for first, last in load.members:
            if ranges and ranges[-1][1] == first - 1:
                first = ranges.pop()[0]  # noqa: PLW2901 - the range goes on
            ranges.append((first, last))
    return [
        replace(load, rank=ranges[0][0], members=tuple(ranges)) for load, ranges in groups.items()
    ]


def _ranges(load: Load) -> str:
    named = [str(a) if a == b else f"{a} to {b}" for a, b in load.members]
    if len(named) <= MAX_RANGES:
        return ", ".join(named)
    rest = sum(b - a + 1 for a, b in load.members[MAX_RANGES:])
    return f"{', '.join(named[:MAX_RANGES])} and {rest} more"


def _figure(theme: Theme, y: str, mode: str) -> go.Figure:
    figure = blank(theme, x="rank", y=y)
    figure.update_layout(barmode=mode, xaxis={"type": "category"})
    figure.update_yaxes(rangemode="tozero")
    return figure


def _add(
    figure: go.Figure,
    swatch: Swatch,
    theme: Theme,
    bars: Sequence[Bar],
    heights: Sequence[float],
    texts: Sequence[str],
) -> None:
    figure.add_bar(
        x=[bar.label for bar in bars],
        y=list(heights),
        name=swatch.label,
        marker={"color": swatch[theme]},
        customdata=list(texts),
        textposition="none",
        hovertemplate=f"rank %{{x}}<br>{swatch.label}: %{{customdata}}<extra></extra>",
    )
