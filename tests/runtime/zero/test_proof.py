"""The ZeRO library trains as DDP does, goes on from checkpoints of other worlds, and planted bugs show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zerosim_runtime.zero.proof.bugs import BUGS
from zerosim_runtime.zero.proof.cases import CASES, MODES, Training, few_trainings_of, trainings_of
from zerosim_runtime.zero.proof.harness import Outcome, outcomes
from zerosim_runtime.zero.proof.judge import Judge

Launch = Callable[[int], dict[str, Outcome]]
SAVING = 4


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """The short set of `n` ranks, run when it is first asked for; four ranks save what others load."""
    saved = tmp_path_factory.mktemp("saved")
    made: dict[int, dict[str, Outcome]] = {}

    def of(n_ranks: int) -> dict[str, Outcome]:
        for n in dict.fromkeys((SAVING, n_ranks)):
            if n not in made:
                found = outcomes(few_trainings_of(n), n, saved, print)
                made[n] = {outcome.training.name: outcome for outcome in found}
        return made[n_ranks]

    return of


def names(n_ranks: int) -> list[tuple[int, str]]:
    return [
        (n_ranks, training.name) for training in few_trainings_of(n_ranks) if training.bug is None
    ]


@pytest.mark.runtime
@pytest.mark.parametrize(("n_ranks", "name"), [*names(4), *names(3), *names(2)])
def test_a_training_by_the_library_is_that_of_ddp(launch: Launch, n_ranks: int, name: str) -> None:
    outcome = launch(n_ranks)[name]
    assert outcome.equal, outcome


@pytest.mark.runtime
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_the_library_makes_the_proof_fail(launch: Launch, bug: str) -> None:
    (outcome,) = (found for found in launch(3).values() if found.training.bug == bug)
    assert not outcome.equal, outcome


@pytest.mark.runtime
def test_a_bug_is_noticed_by_wrong_numbers_unless_the_library_itself_refuses(
    launch: Launch,
) -> None:
    refused = {f.training.bug for f in launch(3).values() if f.training.bug and f.error is not None}
    assert refused <= {"no-gather-for-backward"}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("case", CASES)
def test_one_rank_trains_as_torch_does_to_the_bit(case: str, tmp_path: Path) -> None:
    judge = Judge(tmp_path)
    for mode in ("zero1", "zero2-dynamic", "zero3-p1"):
        assert judge.judge(Training(case, mode, steps=6)).bitwise, mode


def test_every_case_and_mode_is_in_the_whole_matrix_and_every_case_in_the_short_one() -> None:
    whole = trainings_of(2)
    assert {(training.case, training.mode) for training in whole} >= {
        (c, m) for c in CASES for m in MODES
    }
    assert {training.case for training in few_trainings_of(3)} == set(CASES)
    assert {training.mode for training in few_trainings_of(2)} == set(MODES)


def test_trainings_of_a_world_have_names_of_their_own() -> None:
    for n_ranks in (1, 2, 3, 4):
        several = [training.name for training in trainings_of(n_ranks)]
        assert len(set(several)) == len(several)
