"""New buckets are agreed on: a rank whose plan differs from rank 0's stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.runtime.cases import UNIFORM, case
from zerosim.errors import RuntimeFailedError
from zerosim.plan import Op
from zerosim.scenario import Scenario
from zerosim_runtime import averaging
from zerosim_runtime.progress import Rank, issue
from zerosim_runtime.rank import Trainer, make_trainer, open_rank, stop, train

Said = list[list[int]]


def _trained(directory: Path, schedule: str) -> Trainer:
    scenario = Scenario.from_dict(case(schedule, UNIFORM, 1, steps=2).scenario)
    recorder = open_rank(directory, "gloo", poison=True)
    trainer = make_trainer(scenario, recorder, backend="gloo", timeout_s=30)
    try:
        train(trainer)
    finally:
        if not recorder.file.closed:
            recorder.close("finished")
        stop(trainer)
    return trainer


def _instead(monkeypatch: pytest.MonkeyPatch, change: int) -> Said:
    """Let rank 0 say something else by `change`; returns what it would have said."""
    said: Said = []

    def issued(
        rank: Rank, op: Op, output: torch.Tensor, source: torch.Tensor, finish: Callable[[], None]
    ) -> None:
        if op.name == "BCbuckets":
            said.append(output.tolist())
            output.add_(change)
        issue(rank, op, output, source, finish)

    monkeypatch.setattr(averaging, "issue", issued)
    return said


@pytest.mark.usefixtures("alone")
def test_rank_0_says_the_parameters_bucket_by_bucket_and_then_the_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = _instead(monkeypatch, 0)
    _trained(tmp_path, "ddp-cap")
    # Three buckets or fewer of weight and bias of three layers, the last layer's bias first.
    order, sizes = said
    assert order == [5, 4, 3, 2, 1, 0, len(sizes)]
    assert sum(sizes) == 6


@pytest.mark.usefixtures("alone")
def test_a_rank_that_has_other_buckets_in_mind_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _instead(monkeypatch, 1)
    with pytest.raises(RuntimeFailedError, match="'BCbuckets': rank 0 makes other buckets"):
        _trained(tmp_path, "ddp-cap")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("schedule", "kind"), [("ddp-cap", "buckets"), ("ddp-views", "gradients")])
def test_the_buffer_of_all_buckets_is_held_for_good(
    tmp_path: Path, schedule: str, kind: str
) -> None:
    rank = _trained(tmp_path, schedule).execution.rank
    # 3 layers of 21 x 21 + 21 elements of 4 bytes
    assert rank.memory.booked["buckets"] == (kind, 5544)
    assert rank.gradients == {}
