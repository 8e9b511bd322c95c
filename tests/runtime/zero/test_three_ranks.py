"""Three real ranks: equal to DDP, even and uneven loads, overflows, checkpoints of other world sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import torch

from tests.runtime.zero.trainer_program import SETTINGS, Net, train, values
from zerosim_runtime.launch import run_ranks
from zerosim_runtime.zero import Options, shard

pytestmark = [pytest.mark.runtime, pytest.mark.usefixtures("alone")]
PROGRAM = Path(__file__).with_name("trainer_program.py")


@pytest.fixture(scope="module")
def by_one(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A directory with a checkpoint of one rank, and what its training came to."""
    request.getfixturevalue("alone")
    directory = tmp_path_factory.mktemp("zero-three")
    with shard(Net().double(), Options(2, settings=SETTINGS)) as trainer:
        train(trainer, range(3))
        trainer.save(directory / "by-one")
        train(trainer, range(3, 6))
        return directory, values(trainer)


@pytest.fixture(scope="module")
def reports(by_one: Any) -> list[dict[str, Any]]:
    directory, _ = by_one
    code = run_ranks([str(PROGRAM), str(directory)], directory, 3)
    assert code == 0, (directory / "torchrun.log").read_text()
    return [orjson.loads((directory / f"report-{rank}.json").read_bytes()) for rank in range(3)]


@pytest.mark.parametrize("case", ["even 1", "even 2", "whole 1", "whole 2"])
def test_parameters_are_ddps_though_a_rank_alone_drops_a_layer(
    reports: list[dict[str, Any]], case: str
) -> None:
    assert max(report[case] for report in reports) < 1e-9


def test_whole_parameters_leave_a_rank_without_states_and_even_rows_do_not(
    reports: list[dict[str, Any]],
) -> None:
    assert [report["balance"]["whole"] for report in reports] == [7 * 8, 5 * 8, 0]
    assert [report["balance"]["even"] for report in reports] == [(3 + 2) * 8] * 3


def test_an_overflow_in_one_row_of_one_rank_makes_all_skip(reports: list[dict[str, Any]]) -> None:
    assert [report["overflow"] for report in reports] == [[True, True, 32768.0]] * 3


def test_three_ranks_go_on_from_one_and_one_from_three(
    by_one: Any, reports: list[dict[str, Any]]
) -> None:
    directory, alone = by_one
    assert _far(reports[0]["loaded"], alone) < 1e-12
    with shard(Net(1).double(), Options(1, settings=SETTINGS, partition="whole")) as trainer:
        trainer.load(directory / "by-three")
        train(trainer, range(3, 6))
        assert _far(values(trainer), reports[0]["saved"]) < 1e-12


def test_ranks_with_other_options_or_modules_are_refused_before_anything_is_sharded(
    reports: list[dict[str, Any]],
) -> None:
    remedy = "have another module, or other options, than rank 0: build the same on all"
    assert [report["differ"] for report in reports] == [
        [f"1 of 3 ranks {remedy}", f"2 of 3 ranks {remedy}"]
    ] * 3


def test_when_one_rank_cannot_write_all_say_so(reports: list[dict[str, Any]]) -> None:
    assert [report["failed"].split(":")[0] for report in reports] == [
        "another rank could not go on with the checkpoint",
        "cannot write a checkpoint ([Errno 28] No space left on device)",
        "another rank could not go on with the checkpoint",
    ]


def _far(one: dict[str, list[float]], other: dict[str, list[float]]) -> float:
    assert one.keys() == other.keys()
    return max(
        (torch.tensor(one[name]) - torch.tensor(other[name])).abs().max().item() for name in one
    )
