"""The shortest record of a scenario: what is not at its default, and the same scenario again."""

from __future__ import annotations

import pytest

from zerosim.scenario import PRESETS, Scenario, load_scenario


@pytest.mark.parametrize("preset", list(PRESETS))
def test_what_a_scenario_tells_makes_it_again(preset: str) -> None:
    scenario = load_scenario(preset)
    assert Scenario.from_dict(scenario.told()) == scenario


def test_defaults_are_not_told() -> None:
    assert load_scenario("lesson-zero3", ["world_size=3", "prefetch=1"]).told() == {
        "name": "lesson-zero3",
        "schedule": {"name": "zero3", "prefetch": 1},
        "workload": {"micro_batch": 64},
        "numerics": {"dtype": "float32"},
    }
