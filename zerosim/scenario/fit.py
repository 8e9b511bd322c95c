"""What a scenario holds at most: a steady step of it, and the most layers or micro-batch that fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from zerosim.errors import InputError, ScenarioError
from zerosim.plan import Plan
from zerosim.scenario.build import plan_of
from zerosim.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest value of a field that fits, 0 if none does, and the scenario with it.

    `bounded`: a larger one might fit, but is too large to be planned; `scales`: whether memory depends
    on the field at all (it does not on the layers of a model that is given as it is).
    """

    value: int
    scenario: Scenario | None
    bounded: bool = False
    scales: bool = True


def steady(scenario: Scenario) -> tuple[Scenario, Plan]:
    """With enough steps that one is steady, unless that is more than can be planned; and its plan."""
    plan = plan_of(scenario)
    if plan.steady_from <= scenario.run.steps:
        return scenario, plan
    longer = replace(scenario, run=replace(scenario.run, steps=plan.steady_from))
    try:
        return longer, plan_of(longer)
    except ScenarioError:
        return scenario, plan


def largest(
    scenario: Scenario, field: str, limit_bytes: int, peak: Callable[[Scenario], int]
) -> Largest:
    """The largest workload `field` (layers, micro_batch) whose `peak` is within `limit_bytes`.

    Doubles once, then goes just past where the straight line through the last two meets the limit,
    since memory grows nearly in proportion, and farther each time that still fits. Then narrows
    down by turns: where the line between the two ends meets the limit, and half-way.
    """

    def with_value(value: int) -> Scenario:
        changed: dict[str, Any] = {field: value}
        return replace(scenario, workload=replace(scenario.workload, **changed))

    def measured(value: int) -> int | None:
        """Its peak; None if it is too large to be planned."""
        try:
            return peak(with_value(value))
        except InputError:
            if value == start:
                raise
            return None

    start: int = getattr(scenario.workload, field)
    low, low_peak, high = 0, 0, start
    high_peak, farther = measured(high), 1
    while high_peak is not None and high_peak <= limit_bytes:
        if high_peak == low_peak:
            return Largest(start, scenario, scales=False)
        step = high
        if low:
            slope = (high_peak - low_peak) / (high - low)
            step = farther * (int((limit_bytes - high_peak) / slope) + 1)
            farther *= 2
        low, low_peak, high = high, high_peak, high + step
        high_peak = measured(high)
    straight = True
    while high - low > 1:
        middle = (low + high) // 2
        if straight and high_peak is not None:
            slope = (high_peak - low_peak) / (high - low)
            middle = min(max(low + int((limit_bytes - low_peak) / slope), low + 1), high - 1)
        found, straight = measured(middle), not straight
        if found is not None and found <= limit_bytes:
            low, low_peak = middle, found
        else:
            high, high_peak = middle, found
    return Largest(low, with_value(low) if low else None, bounded=high_peak is None)
