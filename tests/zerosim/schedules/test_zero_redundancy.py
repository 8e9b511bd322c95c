"""torch's ZeroRedundancyOptimizer: DDP's step, then each owner broadcasts what it updated."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.plan import Axis, Plan
from zerosim.scenario import load_scenario, plan_of


def plan(*words: str) -> Plan:
    return plan_of(load_scenario("lesson-ddp", ["schedule=zero-redundancy", "steps=2", *words]))


def test_each_parameter_is_broadcast_by_its_owner_after_the_update() -> None:
    assert plan().order_of(2) == ("F0 F1 F2 B2 AR2 B1 AR1 B0 AR0 OPT BC0 BC0 BC1 BC1 BC2 BC2")


def test_a_rank_that_owns_nothing_broadcasts_a_bucket_of_one_element() -> None:
    ops = plan("world_size=8", "layers=2", "parameters_as_bucket_view=true").ops
    sent = [op.elements for op in ops if op.step == 2 and op.name.startswith("BC")]
    weight, bias = 768 * 768, 768
    assert sent == [weight, weight, bias, bias, 1, 1, 1, 1]


def test_optimizer_states_lie_with_the_owners() -> None:
    (held,) = [a for a in plan("world_size=8", "layers=2").persistent if a.kind == "optimizer"]
    assert held.by_rank == ((2, 768 * 768 * 8), (2, 768 * 8), (4, 0))


def test_owners_within_a_group_broadcast_to_their_group_alone() -> None:
    found = plan("world_size=8", "layers=2", "process_group_size=2")
    assert found.axes == (Axis("world", 8), Axis("owners", 2))
    assert found.order_of(2) == "F0 F1 B1 AR1 B0 AR0 OPT BC0 BC0 BC1 BC1"
    assert {op.group for op in found.ops if op.name.startswith("BC0")} == {"owners"}
    assert {op.group for op in found.ops if op.name.startswith("AR")} == {"world"}


def test_states_in_groups_are_held_once_in_each() -> None:
    found = plan("world_size=4", "layers=2", "process_group_size=2")
    (held,) = [a for a in found.persistent if a.kind == "optimizer"]
    assert held.by_rank is None
    assert held.nbytes == (768 * 768 + 768) * 8


@pytest.mark.parametrize("size", [0, 3, 16])
def test_a_group_that_does_not_divide_the_ranks_is_refused(size: int) -> None:
    with pytest.raises(ScenarioError, match=f"process_group_size is {size} of 8 ranks"):
        plan("world_size=8", f"process_group_size={size}")
