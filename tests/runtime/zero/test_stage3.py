"""ZeRO-3 of any module equals plain averaging, follows the plan's order to the letter, and refuses the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.runtime.zero.stage3_cases import FEW, case, cases
from tests.runtime.zero.stage3_order import WANTED, Wanted, real, simulated
from tests.runtime.zero.stage3_program import judge
from zerosim_runtime.launch import run_ranks

PROGRAM = Path(__file__).with_name("stage3_program.py")
NAMES = [c.name for c in cases()]
Launch = Callable[[int], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """What each of `n` ranks reports, launched when first asked for."""
    made: dict[int, list[dict[str, Any]]] = {}

    def of(n_ranks: int) -> list[dict[str, Any]]:
        if n_ranks not in made:
            made[n_ranks] = []  # a launch that failed is not repeated
            directory = tmp_path_factory.mktemp(f"stage3-{n_ranks}")
            code = run_ranks([str(PROGRAM), str(directory)], directory, n_ranks)
            assert code == 0, (directory / "torchrun.log").read_text()
            files = [directory / f"report-{rank}.json" for rank in range(n_ranks)]
            made[n_ranks] += [orjson.loads(file.read_bytes()) for file in files]
        assert made[n_ranks], "the launch failed"
        return made[n_ranks]

    return of


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", ["plain", "shared", "reentrant-pairs", "odd"])
def test_one_rank_does_what_plain_torch_does_bit_by_bit(name: str) -> None:
    assert judge(case(name)).bitwise


@pytest.mark.runtime
@pytest.mark.parametrize("name", NAMES)
def test_two_ranks_equal_plain_averaging_bit_by_bit(reports: Launch, name: str) -> None:
    assert [report["cases"][name]["bitwise"] for report in reports(2)] == [True, True]


@pytest.mark.runtime
@pytest.mark.parametrize("name", FEW)
def test_three_ranks_equal_plain_averaging_in_float64(reports: Launch, name: str) -> None:
    for report in reports(3):
        verdict = report["cases"][name]
        assert verdict["loss_error"] < 1e-12
        assert verdict["parameter_error"] < 1e-12


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_one_rank_issues_what_the_plan_lists(wanted: Wanted) -> None:
    seen, expected = real(wanted), simulated(wanted, 1)
    assert (seen.order, seen.elements) == (expected.order, expected.elements)


@pytest.mark.runtime
@pytest.mark.parametrize("n_ranks", [2, 3])
@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_ranks_issue_what_the_plan_lists(reports: Launch, n_ranks: int, wanted: Wanted) -> None:
    expected = simulated(wanted, n_ranks)
    for report in reports(n_ranks):
        seen = report["orders"][wanted.name]
        assert seen["order"] == expected.order
        assert seen["elements"] == expected.elements


@pytest.mark.runtime
def test_the_lesson_is_followed_to_the_letter(reports: Launch) -> None:
    seen = reports(2)[0]["orders"]["0-kept-1"]["order"]
    assert seen == (
        "AG0 F0 AG1 F1 AG2 F2 AG3 F3 AG4 F4 B4 RS4 AG3 B3 RS3 AG2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"
    )


@pytest.mark.runtime
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_the_ledger_holds_what_the_plan_allocates(reports: Launch, n_ranks: int) -> None:
    for wanted in WANTED:
        if wanted.prefetch == 0:
            seen = reports(n_ranks)[0]["orders"][wanted.name]
            assert seen["peaks"] == simulated(wanted, n_ranks).peaks
