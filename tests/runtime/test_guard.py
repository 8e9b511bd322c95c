"""Ranks that issue different collectives are told so, both, whatever the shapes; others pay little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.runtime.guard_program import CASES, ERRS
from zerosim_runtime.launch import run_ranks

PROGRAM = Path(__file__).with_name("guard_program.py")
REMEDY = ": let all ranks run the same layers in the same order, this step is void"
WORDS = {
    "swapped": "rank 0 issued 'AGb' and rank 1 'AGc' as seq 10 of queue 'gather'",
    "dropped": "rank 0 issued 'AGb' and rank 1 'AGc' as seq 10 of queue 'gather'",
    "fewer": "rank 0 issued 'AGb' and rank 1 nothing as seq 10 of queue 'gather'",
    "shape": (
        "rank 0 issued 'AGb' of 8 elements and rank 1 'AGb' of 10 elements "
        "as seq 10 of queue 'gather'"
    ),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    directory = tmp_path_factory.mktemp("guard")
    code = run_ranks([str(PROGRAM), str(directory)], directory, 2)
    assert code == 0, (directory / "torchrun.log").read_text()
    return [orjson.loads((directory / f"report-{rank}.json").read_bytes()) for rank in range(2)]


@pytest.mark.runtime
def test_ranks_that_do_the_same_are_left_alone(reports: list[dict[str, Any]]) -> None:
    assert [(r["same"]["step"], r["same"]["error"]) for r in reports] == [(ERRS, "")] * 2


@pytest.mark.runtime
@pytest.mark.parametrize("name", sorted(set(CASES) - {"same"}))
def test_ranks_that_differ_are_both_told_in_that_step(
    name: str, reports: list[dict[str, Any]]
) -> None:
    for report in reports:
        told = report[name]
        assert (told["step"], told["error"]) == (ERRS, "MismatchError")
        assert told["words"] == f"ranks disagree: {WORDS[name]}{REMEDY}"
        assert told["seconds"] < 15
