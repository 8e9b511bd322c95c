"""The verdict on a case: every rank is compared, and one that was not seen is a difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.errors import UnknownNameError
from zerosim.scenario import plan_of
from zerosim_runtime.equality.__main__ import main
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.families import family_of
from zerosim_runtime.equality.harness import judged
from zerosim_runtime.equality.seen import planned

CASE = Case("one", "ddp", 2, {"schedule": {"name": "ddp"}, "run": {"steps": 2}})
PLAN = plan_of(scenario_of(CASE))
EQUAL = planned(PLAN, 0)


def test_a_case_is_equal_if_every_rank_is() -> None:
    outcome = judged(CASE, PLAN, {0: EQUAL, 1: EQUAL})
    assert outcome.difference is None
    # Step 1: one bucket and two broadcasts; step 2: two buckets.
    assert outcome.collectives == 5


def test_one_rank_with_one_other_size_makes_a_case_different() -> None:
    index = next(i for i, row in enumerate(EQUAL) if row.kind == "all_reduce")
    changed = [*EQUAL]
    changed[index] = replace(changed[index], elements=1)
    outcome = judged(CASE, PLAN, {0: EQUAL, 1: changed})
    assert outcome.difference is not None
    assert outcome.difference.startswith(f"rank 1 at row {index}:")


def test_a_rank_that_failed_says_why() -> None:
    outcome = judged(CASE, PLAN, {0: "ValueError: no such knob", 1: EQUAL})
    assert outcome.difference == "rank 0 failed: ValueError: no such knob"


def test_fake_ranks_are_watched_at_both_ends() -> None:
    assert replace(CASE, world_size=64, fake=True).ranks == (0, 63)
    assert replace(CASE, world_size=3).ranks == (0, 1, 2)


def test_an_unknown_family_is_refused_with_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UnknownNameError, match="no family 'dpd': did you mean 'ddp'"):
        family_of("dpd")
    assert main(["--family", "dpd"]) == 2
    assert "did you mean 'ddp'" in capsys.readouterr().err


def test_a_case_that_there_is_not_is_no_proof(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--family", "ddp", "--case", "nope"]) == 2
    assert "no case has nope in its name" in capsys.readouterr().err


def test_a_report_of_a_part_of_the_cases_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--family", "ddp", "--reduced", "--report", "page.md"]) == 2
    assert "would drop the other cases" in capsys.readouterr().err
