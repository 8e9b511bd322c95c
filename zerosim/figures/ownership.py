"""Who owns the optimizer states: bytes by rank of several runs side by side, and ranks with none."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.analysis.balance import Ownership, ownership
from zerosim.figures.balance import bars_of
from zerosim.figures.palette import RUN, Theme
from zerosim.figures.scale import byte_scale
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.trace import Trace
from zerosim.units import format_bytes


def owners(runs: Sequence[tuple[str, Trace]], theme: Theme) -> Drawing:
    """Bytes of optimizer states by rank, a group of bars a rank, for runs given with their names."""
    known = [(name, trace, found) for name, trace in runs if (found := ownership(trace))]
    if not known:
        return nothing(theme, "These runs do not say which optimizer states each rank owns.")
    scale = byte_scale(max(found.largest_bytes for _, _, found in known))
    figure = blank(theme, x="rank", y=f"optimizer states, {scale.unit}")
    figure.update_layout(barmode="group", xaxis={"type": "category"})
    figure.update_yaxes(rangemode="tozero")
    for i, (name, trace, _) in enumerate(known):
        bars = bars_of(trace)
        values = [bar.load.optimizer or 0 for bar in bars]
        figure.add_bar(
            x=[bar.label for bar in bars],
            y=scale(values),
            name=name,
            marker={"color": RUN[i % len(RUN)][theme]},
            customdata=[format_bytes(v) for v in values],
            textposition="none",
            hovertemplate=f"rank %{{x}}<br>{name}: %{{customdata}}<extra></extra>",
        )
    return Drawing(figure, " ".join(f"{name}: {spoken(found)}" for name, _, found in known))


def spoken(found: Ownership) -> str:
    """How evenly the optimizer states are spread, in a sentence."""
    if found.max_over_mean == 1:
        return f"every rank owns {format_bytes(found.largest_bytes)}."
    empty = f"{found.empty_ranks} of {found.n_ranks} ranks own nothing, " * bool(found.empty_ranks)
    return (
        f"{empty}the most is {format_bytes(found.largest_bytes)}, "
        f"{found.max_over_mean:.2f} times the mean."
    )
