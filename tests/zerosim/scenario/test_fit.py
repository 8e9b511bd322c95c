"""What fits: the largest layers and batches, found on plans, are the last that fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zerosim.errors import ScenarioError
from zerosim.memory.footprint import heaviest
from zerosim.scenario import Scenario, build, load_scenario, plan_of
from zerosim.scenario.fit import largest

GPT2 = load_scenario("gpt2-1.5b")
DEVICE = 80 * 10**9


def peak(scenario: Scenario) -> int:
    return heaviest(plan_of(scenario)).peak_bytes


def peak_with(scenario: Scenario, field: str, value: int) -> int:
    changed: dict[str, Any] = {field: value}
    return peak(replace(scenario, workload=replace(scenario.workload, **changed)))


@pytest.mark.parametrize("field", ["layers", "micro_batch"])
@pytest.mark.parametrize("limit", [8 * 10**9, DEVICE])
def test_one_more_would_not_fit(field: str, limit: int) -> None:
    found = largest(GPT2, field, limit, peak)
    assert not found.bounded
    assert found.scenario is not None
    assert getattr(found.scenario.workload, field) == found.value
    assert peak_with(GPT2, field, found.value) <= limit < peak_with(GPT2, field, found.value + 1)


def test_gpt2_fits_156_layers_or_a_batch_of_23() -> None:
    assert largest(GPT2, "layers", DEVICE, peak).value == 156
    assert largest(GPT2, "micro_batch", DEVICE, peak).value == 23


def test_nothing_fits_nothing() -> None:
    found = largest(GPT2, "micro_batch", 1, peak)
    assert (found.value, found.scenario) == (0, None)


def test_what_cannot_be_planned_bounds_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MAX_OPS", 800)
    lesson = load_scenario("lesson-zero3", ["hidden=1"])
    found = largest(lesson, "layers", DEVICE, peak)
    assert found.bounded
    assert found.value == 100  # about 8 ops a layer and step, 800 in all


def test_a_scenario_that_cannot_be_planned_itself_says_why() -> None:
    with pytest.raises(ScenarioError, match="the scenario has about 240000 ops a rank"):
        largest(load_scenario("lesson-zero3", ["layers=30000"]), "layers", DEVICE, peak)


def test_what_does_not_depend_on_the_field_ends_the_search_where_it_began() -> None:
    found = largest(GPT2, "layers", DEVICE, lambda _: 5)
    assert (found.value, found.bounded, found.scales) == (48, False, False)
