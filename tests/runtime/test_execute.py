"""The cursor: model and plan must agree on what is next, and memory must be there when it is used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own custom

from tests.runtime.cases import GPT, UNIFORM, case
from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim.plan import Axis, Plan
from zerosim.scenario import Scenario, plan_of
from zerosim_runtime import actions
from zerosim_runtime.execute import train_step
from zerosim_runtime.model import Layer, batch_of
from zerosim_runtime.progress import Rank
from zerosim_runtime.rank import (
    Trainer,
    check_plan,
    device_of,
    dtype_of,
    make_trainer,
    open_rank,
    stop,
    train,
)

pytestmark = pytest.mark.usefixtures("alone")


@contextmanager
def _trainer(directory: Path, schedule: str = "zero3", **changes: Any) -> Iterator[Trainer]:
    workload = changes.pop("workload", UNIFORM)
    scenario = Scenario.from_dict(case(schedule, workload, 1, steps=2, **changes).scenario)
    recorder = open_rank(directory, "gloo", poison=True)
    made = make_trainer(scenario, recorder, backend="gloo", timeout_s=30)
    try:
        yield made
    finally:
        if not recorder.file.closed:
            recorder.close("finished")
        stop(made)


def _step(trainer: Trainer, n_batches: int = 1) -> torch.Tensor:
    batches = [
        batch_of(
            trainer.scenario.workload,
            trainer.dtype,
            trainer.device,
            seed=1,
            rank=0,
            step=1,
            micro_batch=i,
        )
        for i in range(n_batches)
    ]
    return train_step(trainer.execution, trainer.model, batches, 1)


def test_a_model_that_computes_in_another_order_is_told_both_names(tmp_path: Path) -> None:
    with _trainer(tmp_path) as trainer:
        first, second, third = trainer.model.layers
        trainer.model.layers = nn.ModuleList([first, third, second])
        with pytest.raises(RuntimeFailedError, match="computes 'F2' where the plan has 'F1'"):
            _step(trainer)


def test_a_model_that_stops_early_is_told_what_the_plan_still_has(tmp_path: Path) -> None:
    with (
        _trainer(tmp_path, micro_batches=2) as trainer,
        pytest.raises(RuntimeFailedError, match="has ended step 1 where the plan has 'F0'"),
    ):
        _step(trainer, n_batches=1)


def test_a_model_that_goes_on_after_the_plan_is_told_so(tmp_path: Path) -> None:
    with (
        _trainer(tmp_path) as trainer,
        pytest.raises(RuntimeFailedError, match="computes 'F0' where the plan has 'OPT'"),
    ):
        _step(trainer, n_batches=2)


def test_a_parameter_without_a_gradient_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_bias(layer: Layer, x: torch.Tensor) -> torch.Tensor:
        return F.linear(torch.tanh(x), layer.needed("weight"))

    with _trainer(tmp_path) as trainer:
        monkeypatch.setitem(Layer.forward.__globals__["_FORWARD"], "uniform", without_bias)
        with pytest.raises(
            RuntimeFailedError, match="'B2' gave parameter 1 of unit '2' no gradient"
        ):
            _step(trainer)


def test_a_layer_that_computes_before_its_gather_gives_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_allocate(rank: Rank, op: Any) -> None:
        whole, rows = op.allocates
        rank.memory.refill(whole, rank.weights.whole[int(op.unit)])
        rank.memory.new(rows, rows.nbytes // 4, torch.float32)

    monkeypatch.setitem(actions._ACTIONS, Kind.ALL_GATHER, only_allocate)
    with _trainer(tmp_path) as trainer:
        assert math.isnan(_step(trainer).item())


def test_an_op_that_no_real_rank_can_do_is_refused(tmp_path: Path) -> None:
    with _trainer(tmp_path) as trainer:
        op = trainer.execution.plan.ops[0]
        with pytest.raises(
            RuntimeFailedError, match="op 'X' is a 'scatter', which no real rank can do"
        ):
            actions.carry_out(trainer.execution.rank, replace(op, name="X", kind=Kind.SCATTER))


def test_zero3_holds_no_whole_parameter_between_steps(tmp_path: Path) -> None:
    with _trainer(tmp_path) as trainer:
        train(trainer)
        weights = trainer.execution.rank.weights
        assert [whole.untyped_storage().nbytes() for whole in weights.whole] == [0, 0, 0]
        assert [shard.numel() for shard in weights.shards] == [462, 462, 462]


@pytest.mark.parametrize("schedule", ["ddp", "zero1", "zero2", "zero3"])
def test_nothing_but_states_is_held_after_a_step(tmp_path: Path, schedule: str) -> None:
    with _trainer(tmp_path, schedule, workload=GPT, micro_batches=2) as trainer:
        train(trainer)
        rank = trainer.execution.rank
        for_good = ["buckets"] if schedule == "ddp" else []
        assert sorted(rank.memory.booked) == [*for_good, "optimizer", "parameters"]
        assert (rank.gradients, list(rank.pending)) == ({}, [])
        assert [p.grad for p in trainer.model.parameters() if p.grad is not None] == []


def test_a_plan_of_several_groups_is_refused() -> None:
    with pytest.raises(RuntimeFailedError, match="group 'node' of 2 of 4 ranks: real ranks run"):
        check_plan(Plan("hybrid", 4, (), (Axis("node", 2),)))


def test_a_plan_that_holds_other_states_than_the_rank_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def larger(scenario: Scenario) -> Plan:
        plan = plan_of(scenario)
        held = tuple(replace(a, nbytes=a.nbytes + 4) for a in plan.persistent)
        return replace(plan, persistent=held)

    monkeypatch.setitem(make_trainer.__globals__, "plan_of", larger)
    recorder = open_rank(tmp_path, "gloo")
    scenario = Scenario.from_dict(case("zero3", UNIFORM, 1).scenario)
    with pytest.raises(RuntimeFailedError, match="'parameters' take 5544 B, the plan says 5548 B"):
        make_trainer(scenario, recorder, backend="gloo", timeout_s=30)
    recorder.close("failed")


def test_dtypes_go_by_torchs_names() -> None:
    assert dtype_of("bfloat16") == torch.bfloat16
    with pytest.raises(RuntimeFailedError, match="torch has no dtype 'floaty'"):
        dtype_of("floaty")


def test_gloo_ranks_compute_on_the_cpu() -> None:
    assert device_of("gloo") == torch.device("cpu")
