"""Gradient buckets: how they fill during the backward, and when their collectives take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zerosim.analysis.buckets import BucketFill, bucket_fills
from zerosim.figures.palette import MEMORY, OPS, Theme
from zerosim.figures.scale import byte_scale, time_scale
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.trace import Trace
from zerosim.units import format_bytes, format_ns

MAX_LABELS: Final = 16
_LABEL_WIDTH: Final = 0.08
"""Share of the figure's width that a label takes."""
NAMES: Final = ("waiting in buckets", "on its way")


def buckets(trace: Trace, rank: int, theme: Theme) -> Drawing:
    """Gradients of `rank` that wait in buckets, and every moment when a collective takes one."""
    fills = bucket_fills(trace, rank)
    if not fills:
        return nothing(theme, f"This run does not say how the buckets of rank {rank} fill.")
    begin = trace.begin_ns
    times, waiting, moving = _total(fills)
    sent = sorted(
        (at - begin, fill.bucket, _level_before(fill, at)) for fill in fills for at in fill.sent_ns
    )
    clock = time_scale(max(times) - begin)
    most = max(w + m for w, m in zip(waiting, moving, strict=True))
    size = byte_scale(most)
    figure = blank(theme, x=f"time, {clock.unit}", y=f"in buckets, {size.unit}")
    x = [0.0, *clock([t - begin for t in times])]
    swatches = MEMORY["buckets"], OPS["reduce_scatter"]
    for name, values, swatch in zip(NAMES, (waiting, moving), swatches, strict=True):
        figure.add_scatter(
            x=x,
            y=[0.0, *size(values)],
            name=name,
            mode="lines",
            stackgroup="buckets",
            line={"shape": "hv", "width": 1, "color": swatch[theme]},
            customdata=[format_bytes(v) for v in (0, *values)],
            hovertemplate=f"{name}: %{{customdata}}<extra></extra>",
        )
    few = len(sent) <= MAX_LABELS
    figure.add_scatter(
        x=clock([at for at, _, _ in sent]),
        y=size([nbytes for _, _, nbytes in sent]),
        name="taken by a collective",
        mode="markers+text" if few else "markers",
        text=_labels(sent, max(times) - begin) if few else None,
        textposition="top center",
        textfont={"size": 11},
        marker={"size": 8 if few else 4, "color": OPS["reduce_scatter"][theme]},
        customdata=[
            f"bucket {bucket}: {format_bytes(nbytes)} after {format_ns(at)}"
            for at, bucket, nbytes in sent
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_yaxes(range=[0, 1.22 * most / size.size])
    return Drawing(figure, _sentence(rank, [nbytes for _, _, nbytes in sent], max(waiting)))


def _total(fills: Sequence[BucketFill]) -> tuple[list[int], list[int], list[int]]:
    """Bytes that wait in all buckets, and that are on their way, after each change.

    At one moment what has arrived goes first, then come fills, then takings.
    """
    changes: list[tuple[int, int, int, int]] = []
    for fill in fills:
        before = 0
        for time, level in zip(fill.times_ns, fill.nbytes, strict=True):
            changes.append((time, 1, level - before, 0) if level else (time, 2, -before, before))
            before = level
        for at, done in zip(fill.sent_ns, fill.done_ns, strict=False):
            order = 0 if done > at else 3
            changes.append((done, order, 0, -_level_before(fill, at)))
    times, waiting, moving = [], [0], [0]
    for time, _, waits, moves in sorted(changes):
        times.append(time)
        waiting.append(waiting[-1] + waits)
        moving.append(moving[-1] + moves)
    return times, waiting[1:], moving[1:]


def _labels(sent: Sequence[tuple[int, int, int]], length: int) -> list[str]:
    """The buckets' names, without those that would stand on the one before."""
    labels, free = [], 0.0
    for at, bucket, _ in sent:
        labels.append(f"bucket {bucket}" if at >= free else "")
        free = at + _LABEL_WIDTH * length if at >= free else free
    return labels


def _level_before(fill: BucketFill, at: int) -> int:
    emptied = next(
        i
        for i, (t, n) in enumerate(zip(fill.times_ns, fill.nbytes, strict=True))
        if t == at and not n
    )
    return fill.nbytes[emptied - 1] if emptied else 0


def _sentence(rank: int, taken: Sequence[int], most: int) -> str:
    n, low, high = len(taken), min(taken, default=0), max(taken, default=0)
    sizes = format_bytes(low) if low == high else f"{format_bytes(low)} to {format_bytes(high)}"
    plural = "" if n == 1 else "s"
    return f"Rank {rank} sends {n} bucket{plural} of {sizes}; at most {format_bytes(most)} wait at once."
