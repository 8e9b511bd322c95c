"""The sequences of ColossalAI's low-level ZeRO, old and new, as its source issues them."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.kinds import Kind
from zerosim.plan import Plan
from zerosim.scenario import load_scenario, plan_of

LAYER = 768 * 768 + 768
BUCKET_A_LAYER = ("overlap_communication=true", f"reduce_bucket_size={LAYER}")


def plan(schedule: str, *words: str) -> Plan:
    return plan_of(load_scenario("lesson-zero3", (f"schedule={schedule}", *words)))


def order(schedule: str, *words: str) -> str:
    return plan(schedule, *words).order


def test_a_full_bucket_is_reduced_inside_the_next_layers_backward() -> None:
    assert (
        order("colossalai-2", *BUCKET_A_LAYER) == "F0 F1 F2 B2 B1 RS2 B0 RS1 RS0 ARnorm OPT AG0-2"
    )
    assert (
        order("colossalai-1", *BUCKET_A_LAYER) == "F0 F1 F2 B2 B1 AR2 B0 AR1 AR0 ARnorm OPT AG0-2"
    )


def test_stage_1_without_overlap_reduces_after_the_backward_in_the_models_order() -> None:
    assert order("colossalai-1") == "F0 F1 F2 B2 B1 B0 AR0 AR1 AR2 ARnorm OPT AG0-2"


def test_the_plugins_bucket_holds_the_whole_model() -> None:
    assert (
        order("colossalai-2", "overlap_communication=true", "reduce_bucket_size_in_m=12")
        == "F0 F1 F2 B2 B1 B0 RS2-0 ARnorm OPT AG0-2"
    )


def test_old_stage_2_reduces_to_each_owner_and_broadcasts() -> None:
    # Six parameters on three ranks: rank i owns the weight of layer i, then the biases.
    assert (
        order("colossalai-2-old", *BUCKET_A_LAYER)
        == "F0 F1 F2 B2 B1 B0 RED0 RED1 RED2 ARoverflow ARnorm OPT BC0 BC1 BC2"
    )
    assert (
        order("colossalai-1-old", *BUCKET_A_LAYER)
        == "F0 F1 F2 B2 B1 AR2 B0 AR1 AR0 ARoverflow ARnorm OPT BC0 BC1 BC2"
    )


def test_ranks_that_own_nothing_broadcast_nothing() -> None:
    assert order("colossalai-2-old", "world_size=8").endswith("OPT BC0 BC1 BC2 BC3 BC4 BC5")


def test_each_parameter_may_be_gathered_by_itself() -> None:
    asked = plan("colossalai-2", "overlap_allgather=true", "steps=2")
    assert asked.order.endswith("OPT AG0 AG0 AG1 AG1 AG2 AG2")
    gathers = [op.id for op in asked.ops if op.kind is Kind.ALL_GATHER and op.step == 1]
    forwards = [op.after for op in asked.ops if op.kind is Kind.FORWARD and op.step == 2]
    assert forwards == [
        (gathers[0], gathers[1]),
        (gathers[2], gathers[3]),
        (gathers[4], gathers[5]),
    ]


def test_a_parameter_larger_than_a_gather_bucket_goes_alone_and_at_once() -> None:
    # Slices of 196608 and 256 elements a rank: the weights go alone, the biases fill one bucket.
    assert order("colossalai-2", "reduce_bucket_size=1000").endswith("OPT AG0 AG1 AG2 AG0-2")


def test_no_sync_reduces_in_the_last_micro_batch_only_and_is_for_stage_1() -> None:
    assert (
        order("colossalai-1", "no_sync=true", "micro_batches=2", "reduce_bucket_size_in_m=12")
        == "F0 F1 F2 B2 B1 B0 F0 F1 F2 B2 B1 B0 AR0-2 ARnorm OPT AG0-2"
    )
    with pytest.raises(ScenarioError, match=r"'ZeRO2\(partition_grads\) and no_sync are"):
        plan("colossalai-2", "no_sync=true")


def test_every_micro_batch_reduces_otherwise() -> None:
    words = ("micro_batches=2", "reduce_bucket_size_in_m=12")
    for schedule, reduction in (("colossalai-1", "AR0-2"), ("colossalai-2", "RS2-0")):
        assert order(schedule, *words).split().count(reduction) == 2


def test_with_overlap_the_old_host_waits_before_each_reduction_and_the_new_one_once() -> None:
    old, new = (
        [op.name for op in plan(schedule, *BUCKET_A_LAYER).ops if op.kind is Kind.WAIT]
        for schedule in ("colossalai-1-old", "colossalai-1")
    )
    assert old == ["wait2", "wait1", "wait0", "wait", "waitoverflow", "waitnorm"]
    assert new == ["wait", "waitnorm"]


def test_the_computing_stream_never_waits_for_a_reduction() -> None:
    ops = plan("colossalai-2", *BUCKET_A_LAYER).ops
    reductions = {op.id for op in ops if op.kind is Kind.REDUCE_SCATTER}
    computing = [op for op in ops if op.stream == "compute"]
    assert not any(reductions & set(op.after) for op in computing)


def test_without_overlap_a_reduction_runs_in_line() -> None:
    kinds = (Kind.ALL_REDUCE, Kind.ALL_GATHER)
    assert {op.stream for op in plan("colossalai-1").ops if op.kind in kinds} == {"compute"}


def test_a_loss_scaler_asks_all_ranks_for_overflows() -> None:
    assert "ARoverflow ARnorm OPT" in order("colossalai-1", "dtype=float16")


@pytest.mark.parametrize("schedule", ["colossalai-1", "colossalai-2-old"])
def test_a_bucket_holds_an_element_at_least(schedule: str) -> None:
    with pytest.raises(ScenarioError, match=r"reduce_bucket_size is 0: give at least 1 element"):
        plan(schedule, "reduce_bucket_size=0")


def test_dropped_layers_do_not_run_and_all_of_them_cannot_be() -> None:
    assert (
        order("colossalai-2", "drop_layers=1", *BUCKET_A_LAYER)
        == "F0 F2 B2 B0 RS2 RS0 ARnorm OPT AG0-2"
    )
    with pytest.raises(UnknownNameError, match="no layer '7'"):
        plan("colossalai-2", "drop_layers=7")
    with pytest.raises(ScenarioError, match="leave at least one layer"):
        plan("colossalai-2", "drop_layers=0,1,2")
