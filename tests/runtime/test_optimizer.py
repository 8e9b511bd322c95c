"""The sharded optimizers step as torch.optim does, and keep float32 masters of narrow weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from zerosim.errors import UnknownNameError
from zerosim.numerics import Numerics
from zerosim.scenario import Scenario, plan_of, workload_of
from zerosim_runtime.layout import layout_of
from zerosim_runtime.optimizer import Optimizer, Settings, make_optimizer, update
from zerosim_runtime.weights import Weights, make_weights

SETTINGS = Settings(lr=0.05, weight_decay=0.1)
TORCH: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, foreach=False),
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, 0.05, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.1, foreach=False),
}


def _weights(n_ranks: int, rank: int, dtype: str, schedule: str = "zero3") -> Weights:
    scenario = Scenario.from_dict(
        {
            "name": "x",
            "workload": {"layers": 1, "hidden": 5},
            "schedule": {"name": schedule},
            "cluster": {"name": "cpu-gloo", "world_size": n_ranks},
            "numerics": {"dtype": dtype, "optimizer": "adamw"},
        }
    )
    workload = workload_of(scenario)
    return make_weights(
        layout_of(plan_of(scenario), workload),
        workload,
        rank=rank,
        dtype=getattr(torch, dtype),
        device=torch.device("cpu"),
        seed=3,
    )


def _step(optimizer: Optimizer, gradients: list[torch.Tensor], number: int) -> None:
    for owned, gradient in zip(optimizer.owned, gradients, strict=True):
        update(optimizer, owned, gradient, number)


def _gradients(number: int, sizes: list[int], dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    return [torch.randn(n, generator=generator, dtype=torch.float64).to(dtype) for n in sizes]


@pytest.mark.parametrize("name", sorted(TORCH))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ten_steps_equal_torch_optim_to_the_bit(name: str, dtype: str) -> None:
    weights = _weights(1, 0, dtype)
    optimizer = make_optimizer(weights, Numerics(dtype, dtype, name), SETTINGS)
    plain = [torch.nn.Parameter(owned.master.clone()) for owned in optimizer.owned]
    theirs = TORCH[name](plain)
    for number in range(1, 11):
        gradients = _gradients(number, [25, 5], getattr(torch, dtype))
        for parameter, gradient in zip(plain, gradients, strict=True):
            parameter.grad = gradient.clone()
        theirs.step()
        _step(optimizer, gradients, number)
    for owned, parameter in zip(optimizer.owned, plain, strict=True):
        assert torch.equal(owned.weight, parameter.detach())


def test_two_shards_step_as_the_whole() -> None:
    shards = [
        make_optimizer(
            _weights(2, rank, "float32"), Numerics("float32", "float32", "adamw"), SETTINGS
        )
        for rank in (0, 1)
    ]
    whole = make_optimizer(
        _weights(1, 0, "float32"), Numerics("float32", "float32", "adamw"), SETTINGS
    )
    for number in (1, 2, 3):
        gradients = _gradients(number, [25, 5], torch.float32)
        _step(whole, gradients, number)
        for rank, shard in enumerate(shards):
            rows = [torch.nn.functional.pad(g, (0, 1)).view(2, -1)[rank] for g in gradients]
            _step(shard, rows, number)
    for index, owned in enumerate(whole.owned):
        joined = torch.cat([shard.owned[index].weight for shard in shards])
        assert torch.equal(joined[: owned.weight.numel()], owned.weight)
        assert joined[owned.weight.numel() :].tolist() == [0.0]


def test_narrow_weights_have_a_float32_master_that_remembers_small_steps() -> None:
    weights = _weights(1, 0, "bfloat16")
    optimizer = make_optimizer(weights, Numerics("bfloat16", "bfloat16", "sgd"), Settings(lr=1e-4))
    bias = optimizer.owned[1]
    bias.master.fill_(1.0)
    for number in range(1, 101):
        update(optimizer, bias, torch.ones(5, dtype=torch.bfloat16), number)
    # A bfloat16 of 1.0 would not change by a step of 1e-4; a hundred of them count.
    assert bias.master.dtype == torch.float32
    assert bias.master[0].item() == pytest.approx(0.99, abs=1e-5)
    assert bias.weight.tolist() == [0.98828125] * 5


def test_without_a_master_copy_small_steps_are_lost() -> None:
    numerics = Numerics("bfloat16", "bfloat16", "sgd", master=False)
    optimizer = make_optimizer(_weights(1, 0, "bfloat16"), numerics, Settings(lr=1e-4))
    bias = optimizer.owned[1]
    bias.master.fill_(1.0)
    for number in range(1, 101):
        update(optimizer, bias, torch.ones(5, dtype=torch.bfloat16), number)
    assert bias.master is bias.weight
    assert bias.weight.tolist() == [1.0] * 5


def test_without_a_master_copy_moments_are_as_narrow_as_the_weights() -> None:
    numerics = Numerics("bfloat16", "bfloat16", "adam", master=False)
    optimizer = make_optimizer(_weights(1, 0, "bfloat16"), numerics, SETTINGS)
    assert optimizer.allocation.nbytes == 2 * 2 * 30 == 30 * numerics.optimizer_bytes
    assert {moment.dtype for moment in optimizer.owned[0].moments} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("dtype", "name", "nbytes"),
    [
        ("float32", "adamw", 2 * 4 * 30),
        ("float64", "adam", 2 * 8 * 30),
        ("bfloat16", "adam", 3 * 4 * 30),
        ("float32", "momentum", 4 * 30),
        ("float32", "sgd", 0),
        ("bfloat16", "sgd", 4 * 30),
    ],
)
def test_states_take_what_the_byte_convention_says(dtype: str, name: str, nbytes: int) -> None:
    numerics = Numerics(dtype, dtype, name)
    optimizer = make_optimizer(_weights(1, 0, dtype), numerics, SETTINGS)
    assert optimizer.allocation.nbytes == nbytes == 30 * numerics.optimizer_bytes


def test_a_last_row_without_padding_in_memory_is_stepped_only_where_it_exists() -> None:
    weights = _weights(4, 3, "float32", schedule="zero1")
    optimizer = make_optimizer(weights, Numerics("float32", "float32", "sgd"), SETTINGS)
    # 25 elements in rows of 7: the last rank's row has 4; 5 in rows of 2: it has none
    assert [owned.master.numel() for owned in optimizer.owned] == [4, 0]
    before = optimizer.owned[0].master.clone()
    update(optimizer, optimizer.owned[0], torch.ones(7), 1)
    assert torch.allclose(before - optimizer.owned[0].master, torch.full((4,), 0.05))


def test_an_optimizer_without_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(make_optimizer.__globals__["RULES"], "adam")
    with pytest.raises(UnknownNameError, match="no optimizer 'adam': did you mean 'adamw'"):
        make_optimizer(_weights(1, 0, "float32"), Numerics("float32", "float32", "adam"), SETTINGS)
