"""Megatron-LM: every plan comes to the collectives that its optimizer was recorded to issue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.equality.recorded import check_equal
from zerosim.scenario import plan_of
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.megatron_cases import CASES
from zerosim_runtime.equality.recording import Recording, read_recording
from zerosim_runtime.equality.seen import planned

RECORDINGS = Path(__file__).parents[2] / "golden" / "megatron"
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def recording_of(case: Case) -> Recording:
    return read_recording(RECORDINGS / f"{case.name}.json")


@EVERY_CASE
def test_the_plan_is_equal_to_what_megatron_was_recorded_to_do(case: Case) -> None:
    check_equal(plan_of(scenario_of(case)), recording_of(case).seen)


@EVERY_CASE
def test_the_recording_is_of_the_case_as_it_stands(case: Case) -> None:
    assert recording_of(case).case == case


def test_a_plan_that_reduces_early_in_the_first_step_is_not_what_was_seen() -> None:
    (case,) = (case for case in CASES if case.name == "megatron-bucket")
    plan = plan_of(scenario_of(case))
    rows = [row for row in planned(plan, 0) if row.step == 2]
    seen = [row for row in recording_of(case).seen[0] if row.step == 1]
    assert [row.kind for row in rows] != [row.kind for row in seen]
