"""Where parameters live: whole, or as rows of which each rank has one."""

from __future__ import annotations

import pytest
import torch

from tests.runtime.cases import UNIFORM, case
from zerosim.scenario import Scenario, plan_of, workload_of
from zerosim_runtime.layout import layout_of
from zerosim_runtime.model import initial
from zerosim_runtime.weights import Weights, allocation_of, make_weights

N_RANKS = 4


def _weights(schedule: str, rank: int) -> Weights:
    scenario = Scenario.from_dict(case(schedule, UNIFORM, N_RANKS).scenario)
    workload = workload_of(scenario)
    return make_weights(
        layout_of(plan_of(scenario), workload),
        workload,
        rank=rank,
        dtype=torch.float64,
        device=torch.device("cpu"),
        seed=5,
    )


def _expected(unit: int) -> torch.Tensor:
    parameter = workload_of(Scenario.from_dict(case("ddp", UNIFORM, 1).scenario)).units[unit]
    return initial(parameter.parameters[0], unit, 0, 5)


def test_rows_of_all_ranks_end_to_end_are_the_parameter_and_its_padding() -> None:
    ranks = [_weights("zero3", rank) for rank in range(N_RANKS)]
    weight = ranks[0].layout.pieces[1][0]
    joined = torch.cat([w.own(weight) for w in ranks])
    # 441 elements in rows of 111: three are padding, and zero
    assert joined.numel() == 444
    assert torch.equal(joined[:441], _expected(1))
    assert joined[441:].tolist() == [0.0, 0.0, 0.0]


def test_sharded_parameters_take_their_shard_and_nothing_else() -> None:
    weights = _weights("zero3", 0)
    # (111 + 6) elements of 8 bytes in each of three units
    assert allocation_of(weights).nbytes == 3 * 117 * 8
    assert [flat.untyped_storage().nbytes() for flat in weights.whole] == [0, 0, 0]


def test_whole_parameters_take_no_padding() -> None:
    weights = _weights("zero1", 0)
    assert allocation_of(weights).nbytes == 3 * 462 * 8
    assert weights.shards == ()


@pytest.mark.parametrize(("rank", "elements"), [(0, 111), (2, 111), (3, 108)])
def test_a_rank_owns_a_view_of_its_row_of_a_whole_parameter(rank: int, elements: int) -> None:
    weights = _weights("zero2", rank)
    weight = weights.layout.pieces[0][0]
    own = weights.own(weight)
    assert own.numel() == elements
    own.fill_(9.0)
    row = weights.parameters[0][0].detach().flatten()[rank * 111 : rank * 111 + elements]
    assert row.tolist() == [9.0] * elements


def test_without_shards_every_rank_owns_everything() -> None:
    weights = _weights("ddp", 3)
    weight = weights.layout.pieces[0][0]
    assert weights.own(weight).numel() == 441


def test_writing_a_gathered_parameter_is_no_change_that_autograd_minds() -> None:
    weights = _weights("zero3", 0)
    flat, parameter = weights.whole[0], weights.parameters[0][0]
    version = parameter._version
    flat.untyped_storage().resize_(flat.numel() * 8)
    flat.fill_(1.0)
    assert parameter._version == version
    assert parameter.detach().sum().item() == 441.0


def test_every_rank_starts_from_the_same_values_and_each_layer_from_its_own() -> None:
    first, second = _weights("ddp", 0), _weights("ddp", 1)
    assert all(torch.equal(a, b) for a, b in zip(first.whole, second.whole, strict=True))
    assert not torch.equal(first.whole[0], first.whole[1])
