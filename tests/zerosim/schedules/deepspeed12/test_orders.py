"""What DeepSpeed ZeRO-1 and ZeRO-2 issue, and when: measured with the engine, knob by knob."""

from __future__ import annotations

from typing import Any

import pytest

from tests.zerosim.schedules.deepspeed12.models import BFLOAT16, P, layers_of, plan, sizes
from zerosim.kinds import Kind

THREE = layers_of(P, P, P)


def test_by_default_all_gradients_are_all_reduced_after_the_backward() -> None:  # D7
    default = plan(2, THREE)
    assert default.order == "F0 F1 F2 B2 B1 B0 AR2-0 ARnorm OPT AG0-2"
    assert sizes(default) == "AR 3P, AG 3P"


def test_a_bucket_of_one_layer_is_reduced_inside_the_next_layers_backward() -> None:  # D8
    overlapped = plan(2, THREE, overlap_comm=True, reduce_bucket_size=P)
    assert overlapped.order == "F0 F1 F2 B2 B1 AR2 B0 AR1 AR0 ARnorm OPT AG0-2"
    assert sizes(overlapped) == "AR 1P, AR 1P, AR 1P, AG 3P"


def test_each_owner_can_have_a_reduce_of_its_slice() -> None:  # D9
    knobs: dict[str, Any] = {"reduce_bucket_size": P, "use_multi_rank_bucket_allreduce": False}
    assert sizes(plan(2, THREE, **knobs)) == "RED 1P, RED 0.5P, RED 0.5P, RED 1P, AG 3P"
    dealt = plan(2, THREE, **knobs, round_robin_gradients=True)
    assert sizes(dealt) == "RED 0.5P, RED 0.5P, RED 1P, RED 1P, AG 3P"


def test_zero1_without_overlap_reduces_after_the_backward_and_first_layers_first() -> None:
    late = plan(1, THREE, reduce_bucket_size=P)
    assert late.order == "F0 F1 F2 B2 B1 B0 AR0 AR1 AR2 ARnorm OPT AG0-2"


def test_zero1_reduces_in_the_last_micro_batch_and_zero2_in_each() -> None:  # C7
    twice = layers_of(P, P, P, micro_batches=2)
    assert (
        plan(1, twice, overlap_comm=True, reduce_bucket_size=P).order
        == "F0 F1 F2 B2 B1 B0 F0 F1 F2 B2 B1 AR2 B0 AR1 AR0 ARnorm OPT AG0-2"
    )
    assert (
        plan(2, twice, overlap_comm=True, reduce_bucket_size=P).order
        == "F0 F1 F2 B2 B1 AR2 B0 AR1 AR0 F0 F1 F2 B2 B1 AR2 B0 AR1 AR0 ARnorm OPT AG0-2"
    )


def test_a_gradient_larger_than_a_bucket_is_reduced_alone_and_cut_where_owners_meet() -> None:
    # 1.5P a rank: of the gradient of 2P, rank 0 owns 0.5P and rank 1 the rest, each over a bucket.
    large = plan(2, layers_of(P, 2 * P), reduce_bucket_size=P // 4)
    assert sizes(large) == "AR 0.5P, AR 1.5P, AR 1P, AG 3P"


def test_a_gradient_in_place_is_all_reduced_whole() -> None:
    whole = plan(2, layers_of(P, 2 * P), reduce_bucket_size=P // 4, reduce_scatter=False)
    assert sizes(whole) == "AR 2P, AR 1P, AG 3P"


def test_16_bits_look_for_an_overflow_first() -> None:
    assert plan(2, THREE, numerics=BFLOAT16).order.endswith("AR2-0 ARoverflow ARnorm OPT AG0-2")


def test_the_norm_can_be_left_out() -> None:
    assert plan(2, THREE, compute_grad_norm=False).order.endswith("B0 AR2-0 OPT AG0-2")


def test_compute_waits_for_the_reduction_before_the_one_that_it_starts() -> None:
    ops = plan(2, THREE, overlap_comm=True, reduce_bucket_size=P).ops
    reduced = {op.name: op.id for op in ops if op.name.startswith("own")}
    filled = {op.name: op.after for op in ops if op.name.startswith("fill")}
    assert filled == {"fill2": (), "fill1": (), "fill0": (reduced["own2"],)}


def test_the_host_waits_for_the_device_before_each_reduce_to_an_owner() -> None:
    knobs: dict[str, Any] = {"overlap_comm": True, "reduce_bucket_size": P}
    ops = plan(2, THREE, **knobs, use_multi_rank_bucket_allreduce=False).ops
    waits = [op.name for op in ops if op.kind is Kind.WAIT]
    assert waits == ["wait2", "wait1", "wait1", "wait0", "wait", "waitnorm"]


def test_without_overlap_the_backward_waits_for_each_reduction() -> None:
    ops = plan(2, THREE, reduce_bucket_size=P).ops
    (b0,) = (op.id for op in ops if op.name == "B0")
    (own2,) = (op for op in ops if op.name == "own2")
    assert own2.id < b0
    assert own2.stream == "compute"


@pytest.mark.parametrize("stage", [1, 2])
def test_the_next_forward_waits_for_the_gather(stage: int) -> None:
    ops = plan(stage, THREE, steps=2).ops
    (gather,) = (op.id for op in ops if op.name == "AG0-2" and op.step == 1)
    (first,) = (op for op in ops if op.name == "F0" and op.step == 2)
    assert first.after == (gather,)
