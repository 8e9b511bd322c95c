"""Scaling efficiency: how much of a GPU's rate is left at the largest count, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zerosim.validation.score import Scored, weighed


@dataclass(frozen=True, slots=True)
class Efficiency:
    """A group of rows that differ only in GPU count: tokens a second and GPU, largest over smallest."""

    group: str
    source_id: str
    split: str
    simulatable: str
    from_gpus: int
    to_gpus: int
    predicted: float
    measured: float

    @property
    def points(self) -> float:
        """Predicted less measured, in percentage points."""
        return 100 * (self.predicted - self.measured)


@dataclass(frozen=True, slots=True)
class Points:
    """Of the size of the errors in points: median, mean and 90th percentile, by source weighted alike."""

    n_groups: int
    n_sources: int
    median: float
    mean: float
    p90: float


def efficiencies(rows: Sequence[Scored]) -> tuple[Efficiency, ...]:
    """Of each group with two counts. Its split and standing are those of its largest count."""
    groups: dict[str, list[Scored]] = {}
    for row in rows:
        if row.scaling_group is not None:
            groups.setdefault(row.scaling_group, []).append(row)
    found = []
    for name in sorted(groups):
        ends = sorted(groups[name], key=lambda row: (row.n_gpus, row.row_id))
        small, large = ends[0], ends[-1]
        if small.n_gpus == large.n_gpus:
            continue
        tokens = large.tokens / small.tokens
        found.append(
            Efficiency(
                group=name,
                source_id=large.source_id,
                split=large.split,
                simulatable=large.simulatable,
                from_gpus=small.n_gpus,
                to_gpus=large.n_gpus,
                predicted=tokens * small.predicted_s / large.predicted_s,
                measured=tokens * small.measured_s / large.measured_s,
            )
        )
    return tuple(found)


def points(found: Sequence[Efficiency]) -> Points | None:
    """The errors of several groups; None if there are none."""
    size = weighed([(one.source_id, one.points) for one in found])
    if size is None:
        return None
    return Points(size.n_rows, size.n_sources, size.median, size.mean, size.p90)
