"""How much longer something takes with a thing than without it, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Ratio:
    """A median of ratios, and the range in which it lies in 9 of 10 resamplings."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"x {self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def ratio_of(pairs: list[tuple[float, float]]) -> Ratio:
    """With the record by without, over pairs of them."""
    ratios = np.asarray([on / off for on, off in pairs])
    again = np.random.default_rng(0).choice(ratios, (1000, len(ratios)))
    low, high = np.quantile(np.median(again, axis=1), (0.05, 0.95))
    return Ratio(float(np.median(ratios)), float(low), float(high))
