"""How wrong predictions are: |ln(predicted / measured)|, every source with the same weight."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Scored:
    """A measured row beside what was predicted, and beside the null model (None: no constant).

    `facts` are the columns it is grouped by, as text. `defaults` are (column, value, why) of blanks.
    `source`: where the number stands; `params`: of the model; `scenario`: what was simulated, as far
    as it is not the default.
    """

    row_id: str
    source_id: str
    split: str
    suite: str
    simulatable: str
    scaling_group: str | None
    n_gpus: int
    tokens: int
    predicted_s: float
    measured_s: float
    null_s: float | None
    facts: Mapping[str, str]
    defaults: tuple[tuple[str, str, str], ...]
    source: str = ""
    params: float = 0.0
    scenario: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ln_ratio(self) -> float:
        """ln(predicted / measured): above 0 predicts too slow."""
        return math.log(self.predicted_s / self.measured_s)

    @property
    def null_ln_ratio(self) -> float | None:
        """The same for the null model."""
        return None if self.null_s is None else math.log(self.null_s / self.measured_s)


@dataclass(frozen=True, slots=True)
class Errors:
    """Of |ln(predicted / measured)|: median, mean and 90th percentile; `bias` is the mean of ln."""

    n_rows: int
    n_sources: int
    median: float
    mean: float
    p90: float
    bias: float


Ratio = Callable[[Scored], float | None]


def model_ratio(row: Scored) -> float | None:
    """What the simulator is off by."""
    return row.ln_ratio


def null_ratio(row: Scored) -> float | None:
    """What the null model is off by."""
    return row.null_ln_ratio


def errors(rows: Sequence[Scored], ratio: Ratio = model_ratio) -> Errors | None:
    """Errors of `rows`, each source with the same weight in all; None if there is nothing to score."""
    return weighed([(row.source_id, x) for row in rows if (x := ratio(row)) is not None])


def weighed(pairs: Sequence[tuple[str, float]]) -> Errors | None:
    """Errors of (source, ln(predicted / measured)), each source with the same weight in all."""
    if not pairs:
        return None
    of_source = Counter(source for source, _ in pairs)
    weights = np.asarray([1 / (len(of_source) * of_source[source]) for source, _ in pairs])
    ln = np.asarray([found for _, found in pairs])
    size = np.abs(ln)
    half, most = np.quantile(size, (0.5, 0.9), weights=weights, method="inverted_cdf")
    return Errors(
        n_rows=len(pairs),
        n_sources=len(of_source),
        median=float(half),
        mean=float(weights @ size),
        p90=float(most),
        bias=float(weights @ ln),
    )


SLICES: Final = ("source", "gpu", "size", "GPUs")
"""The facts by which every suite is cut."""
COMMON: Final = (
    *SLICES,
    "model",
    "framework",
    "ZeRO stage",
    "sequence",
    "micro-batch",
    "accumulation",
    "checkpointing",
    "precision",
    "attention",
    "compile",
    "nodes",
    "network",
)
"""The facts in which the worst rows may be alike."""


def by_fact(rows: Sequence[Scored], fact: str) -> dict[str, tuple[Scored, ...]]:
    """Rows by the value of a fact, in the order of the values as numbers, else as text."""
    found: dict[str, list[Scored]] = {}
    for row in rows:
        found.setdefault(row.facts.get(fact, ""), []).append(row)
    return {value: tuple(found[value]) for value in sorted(found, key=_in_order)}


_BELOW: Final = 1e-9
"""`< 0.5` comes before `0.5 to 2`."""


def _in_order(value: str) -> tuple[float, str]:
    first = value.lstrip("<≤≥ ").split()[0] if value.strip() else ""
    try:
        below = value.startswith("<")
        return float(first) - below * _BELOW, value
    except ValueError:
        return math.inf, value


@dataclass(frozen=True, slots=True)
class Shared:
    """A value that the worst rows have more often than all rows do."""

    fact: str
    value: str
    among_worst: int
    n_worst: int
    among_all: int
    n_all: int


def worst(rows: Sequence[Scored]) -> tuple[Scored, ...]:
    """Rows by size of their error, largest first."""
    return tuple(sorted(rows, key=lambda row: (-abs(row.ln_ratio), row.row_id)))


_MOST_SHARED: Final = 5


def shared(rows: Sequence[Scored]) -> tuple[Shared, ...]:
    """What the worst tenth has in common, beyond what all have: by difference of shares."""
    ordered = worst(rows)
    tenth = ordered[: max(1, len(ordered) // 10)]
    found = []
    for fact in COMMON:
        every, bad = (Counter(row.facts.get(fact, "") for row in some) for some in (rows, tenth))
        found += [
            Shared(fact, value, count, len(tenth), every[value], len(rows))
            for value, count in bad.items()
            if value and count / len(tenth) > every[value] / len(rows)
        ]
    found.sort(key=lambda s: (s.among_all / s.n_all - s.among_worst / s.n_worst, s.fact, s.value))
    return tuple(found[:_MOST_SHARED])
