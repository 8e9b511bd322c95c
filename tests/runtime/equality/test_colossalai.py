"""ColossalAI: every plan comes to the collectives that its optimizer was recorded to issue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.equality.recorded import check_equal
from zerosim.scenario import plan_of
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.colossalai_cases import CASES, OLD_CASES
from zerosim_runtime.equality.recording import Recording, read_recording
from zerosim_runtime.equality.seen import compared, planned

GOLDEN = Path(__file__).parents[2] / "golden"
PLACES = {"colossalai": GOLDEN / "colossalai", "colossalai-old": GOLDEN / "colossalai_old"}
EVERY_CASE = pytest.mark.parametrize("case", [*CASES, *OLD_CASES], ids=lambda case: case.name)


def recording_of(case: Case) -> Recording:
    return read_recording(PLACES[case.family] / f"{case.name}.json")


@EVERY_CASE
def test_the_plan_is_equal_to_what_colossalai_was_recorded_to_do(case: Case) -> None:
    recording = recording_of(case)
    check_equal(plan_of(scenario_of(recording.case)), recording.seen)


@EVERY_CASE
def test_the_recording_is_of_the_case_as_it_stands(case: Case) -> None:
    assert recording_of(case).case == case


def test_the_even_split_lies_between_the_releases() -> None:
    releases = {c.family: recording_of(c).versions["colossalai"] for c in (*CASES, *OLD_CASES)}
    assert releases == {"colossalai": "0.5.0", "colossalai-old": "0.3.0"}


def test_another_bucket_size_is_noticed() -> None:
    recording = read_recording(PLACES["colossalai"] / "c2-overlap.json")
    scenario = recording.case.scenario
    other = replace(
        recording.case,
        scenario=scenario | {"schedule": scenario["schedule"] | {"reduce_bucket_size": 100}},
    )
    assert compared(planned(plan_of(scenario_of(other)), 0), recording.seen[0]) is not None
