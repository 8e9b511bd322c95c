"""What ColossalAI's low-level ZeRO sends and holds, rank by rank, against closed forms."""

from __future__ import annotations

from fractions import Fraction

import pytest

from zerosim.collectives import wire_bytes
from zerosim.engine import simulate
from zerosim.kinds import Kind
from zerosim.plan import Plan
from zerosim.scenario import cluster_of, load_scenario, plan_of

PSI = 3 * (768 * 768 + 768)


def plan(schedule: str, *words: str) -> Plan:
    return plan_of(load_scenario("lesson-zero3", (f"schedule={schedule}", *words)))


def sent(made: Plan) -> Fraction:
    """Elements that a rank sends in the mean, without the single numbers of norm and overflow."""
    moved = [op for op in made.ops if op.group is not None and (op.elements or 0) > 1]
    n = made.world_size
    return sum(
        (Fraction(wire_bytes(op.kind, (op.elements or 0) * n, n), n) for op in moved),
        Fraction(),
    )


# Check cases C2 and C3c: 2Ψ(N-1)/N, and 3Ψ(N-1)/N where gradients are all-reduced.
@pytest.mark.parametrize(
    ("schedule", "times"),
    [("colossalai-2", 2), ("colossalai-1", 3), ("colossalai-2-old", 2), ("colossalai-1-old", 3)],
)
@pytest.mark.parametrize("n", [2, 8])
def test_volumes_are_the_closed_form(schedule: str, times: int, n: int) -> None:
    assert sent(plan(schedule, f"world_size={n}")) == Fraction(times * PSI * (n - 1), n)


def held(made: Plan, key: str) -> list[int]:
    (allocation,) = (a for a in made.persistent if a.key == key)
    return [allocation.at(rank) for rank in range(made.world_size)]


def test_whole_parameters_leave_ranks_without_optimizer_states() -> None:
    old = plan("colossalai-2-old", "world_size=8")
    matrix, bias = 768 * 768 * 8, 768 * 8
    assert held(old, "optimizer") == [matrix] * 3 + [bias] * 3 + [0] * 2
    assert held(plan("colossalai-2", "world_size=8"), "optimizer") == [PSI * 8 // 8] * 8


def test_the_update_takes_each_old_rank_as_long_as_what_it_owns() -> None:
    (update,) = (
        op for op in plan("colossalai-1-old", "world_size=8").ops if op.kind is Kind.OPTIMIZER
    )
    each = 4 + 2 * 8 + 4
    assert update.memory_bytes_by_rank == ((3, 768 * 768 * each), (3, 768 * each), (2, 0))
    assert update.memory_bytes == 768 * 768 * each


def test_the_broadcasts_start_when_the_largest_owner_has_updated() -> None:
    scenario = load_scenario("lesson-zero3", ["schedule=colossalai-2-old", "world_size=8"])
    trace = simulate(plan_of(scenario), cluster_of(scenario))
    rows = trace.spans.select("name", "rank", "start_ns", "end_ns").rows()
    updated = {rank: end for name, rank, _, end in rows if name == "OPT"}
    first = {rank: end for name, rank, _, end in rows if name == "BC0"}
    assert updated[0] == max(updated.values()) > updated[7]
    assert len(set(first.values())) == 1
    assert min(first.values()) > updated[0]


def test_stage_1_keeps_the_whole_averaged_gradient_and_stage_2_a_slice() -> None:
    def averaged(schedule: str) -> int:
        made = plan(schedule, "world_size=8")
        return sum(
            a.nbytes for op in made.ops for a in op.allocates if a.key.startswith("averaged.")
        )

    assert (averaged("colossalai-1"), averaged("colossalai-2")) == (PSI * 4, PSI * 4 // 8)


def test_a_16_bit_gradient_is_copied_to_float32_before_the_update() -> None:
    made = plan("colossalai-2", "world_size=8", "dtype=bfloat16")
    copies = [a.nbytes for op in made.ops for a in op.allocates if a.kind == "workspace"]
    assert copies == [PSI // 8 * 4]


def test_a_dropped_layer_is_not_reduced_updated_or_gathered() -> None:
    made = plan("colossalai-2", "world_size=8", "drop_layers=1")
    kept = PSI * 2 // 3
    moved = {
        kind: sum(op.elements or 0 for op in made.ops if op.kind is kind)
        for kind in (Kind.REDUCE_SCATTER, Kind.ALL_GATHER)
    }
    assert set(moved.values()) == {kept}
    (update,) = (op for op in made.ops if op.kind is Kind.OPTIMIZER)
    assert update.memory_bytes == kept // 8 * (4 + 2 * 8 + 4)
    assert held(made, "optimizer") == [PSI * 8 // 8] * 8  # its states exist all the same
