"""The null model: every FLOP takes the same time, one constant for each GPU, fitted on calib rows.

A GPU that no calib row has takes the share of its peak that the others reach in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from zerosim.scenario import workload_of
from zerosim.validation.predict import Predicted


@dataclass(frozen=True, slots=True)
class Null:
    """Shares of the peak by device, and the one for devices that were not fitted (None: no rows)."""

    shares: dict[str, float]
    other: float | None

    def seconds(self, one: Predicted) -> float | None:
        """What a row would take; None without a single calib row."""
        share = self.shares.get(one.device, self.other)
        return None if share is None else flops(one) / (share * one.peak_flops)


def fitted(found: Sequence[Predicted]) -> Null:
    """The null model of these rows: the median in logarithms over calib rows of each device."""
    by_device: dict[str, list[float]] = {}
    for one in found:
        if one.row.split == "calib" and one.row.simulatable == "yes":
            share = flops(one) / one.row.measured_s / one.peak_flops
            by_device.setdefault(one.device, []).append(math.log(share))
    shares = {device: math.exp(median(logs)) for device, logs in sorted(by_device.items())}
    return Null(shares, median(shares.values()) if shares else None)


def flops(one: Predicted) -> int:
    """FLOPs that one rank computes in a step, recomputation included."""
    workload = workload_of(one.scenario)
    each = sum(
        layer.forward_flops + layer.recompute_flops + layer.backward_flops
        for layer in workload.layers
    )
    return each * workload.micro_batches
