"""DeepSpeed: every plan comes to the collectives that the real engine was recorded to issue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.equality.recorded import check_equal
from zerosim_runtime.equality.deepspeed import CASES
from zerosim_runtime.equality.deepspeed_plan import plan_of, rows_of
from zerosim_runtime.equality.recording import read_recording
from zerosim_runtime.equality.seen import compared, planned

RECORDINGS = Path(__file__).parents[2] / "golden" / "deepspeed"
NAMES = [case.name for case in CASES]


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_is_equal_to_what_deepspeed_was_recorded_to_do(name: str) -> None:
    recording = read_recording(RECORDINGS / f"{name}.json")
    seen = [rows_of(recording.case, rows) for rows in recording.seen]
    check_equal(plan_of(recording.case), seen)


def test_another_bucket_size_is_noticed() -> None:
    recording = read_recording(RECORDINGS / "z2-overlap.json")
    scenario = recording.case.scenario
    schedule = scenario["schedule"] | {"reduce_bucket_size": 2 * 32 * 32}
    other = replace(recording.case, scenario=scenario | {"schedule": schedule})
    mismatch = compared(planned(plan_of(other), 0), recording.seen[0])
    assert mismatch is not None


def test_more_than_twenty_settings_of_each_kind_are_compared() -> None:
    stages = [name.partition("-")[0] for name in NAMES]
    assert stages.count("z1") + stages.count("z2") >= 20
    assert stages.count("z3") >= 20
