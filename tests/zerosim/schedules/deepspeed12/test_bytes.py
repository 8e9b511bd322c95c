"""Volumes and memory of DeepSpeed ZeRO-1 and ZeRO-2, against closed forms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.zerosim.schedules.deepspeed12.models import (
    BFLOAT16,
    FLOAT32,
    P,
    collectives,
    layers_of,
    plan,
)
from zerosim.kinds import Kind
from zerosim.models import uniform
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.scenario import load_scenario, plan_of

GB = 10**9
PASSES = {Kind.ALL_REDUCE: 2, Kind.ALL_GATHER: 1, Kind.REDUCE: 1}
"""How often each element is sent by a rank, times (N-1)/N."""


def sent(of: Plan) -> float:
    """Elements sent per rank and parameter."""
    elements = sum(PASSES[op.kind] * (op.elements or 0) for op in collectives(of))
    return elements * (of.world_size - 1) / of.world_size


def allocated(of: Plan, key: str) -> int:
    (nbytes,) = {a.nbytes for op in of.ops for a in op.allocates if a.key == key}
    return nbytes


def peak(of: Plan, rank: int = 0) -> int:
    """The most bytes allocated beside what is persistent."""
    live: dict[str, int] = {}
    most = 0
    for op in of.ops:
        live.update({a.key: a.at(rank) for a in op.allocates})
        most = max(most, sum(live.values()))
        for key in op.frees:
            del live[key]
    assert live == {}
    return most


@pytest.mark.parametrize("stage", [1, 2])
def test_by_default_a_rank_sends_three_times_the_parameters(stage: int) -> None:  # C3
    equal = layers_of(1 << 20)
    assert sent(plan(stage, equal, 8)) / (1 << 20) == 2.625
    assert sent(plan(stage, equal, 64)) / (1 << 20) == 2.953125


def test_reduces_to_owners_send_as_little_as_a_reduce_scatter() -> None:  # C3b
    equal = layers_of(1 << 20)
    assert sent(plan(2, equal, 8, use_multi_rank_bucket_allreduce=False)) / (1 << 20) == 1.75


def test_the_flat_parameters_are_padded_to_two_elements_a_rank() -> None:  # E5
    states = {a.key: a.nbytes for a in plan(2, layers_of(1_000_003), 8, BFLOAT16).persistent}
    assert states == {"parameters": 2 * 1_000_016, "optimizer": 12 * 125_002}


def test_float32_parameters_have_a_float32_master_too() -> None:
    states = {a.key: a.nbytes for a in plan(2, layers_of(16), 2, FLOAT32).persistent}
    assert states == {"parameters": 4 * 16, "optimizer": 12 * 8}


def test_aligned_parameters_start_at_16_bytes() -> None:
    # 3 and 5 bfloat16 elements: the second starts at element 8, so 13 are padded to 16.
    gather = collectives(plan(2, layers_of(3, 5), 2, BFLOAT16, parameter_alignment=True))[-1]
    assert gather.elements == 16


def test_bucket_buffers_are_allocated_whole_whatever_the_model() -> None:  # I4
    tiny = layers_of(10)
    alone = plan(2, tiny, numerics=BFLOAT16)
    assert allocated(alone, "ipg.0") == 1 * GB
    assert "ipg.1" not in {a.key for op in alone.ops for a in op.allocates}
    both = plan(2, tiny, numerics=BFLOAT16, overlap_comm=True)
    assert allocated(both, "ipg.0") + allocated(both, "ipg.1") == 2 * GB


def test_a_full_bucket_of_several_owners_is_copied_flat_beside_its_buffer() -> None:  # I4
    full = plan(2, layers_of(500_000_000), numerics=BFLOAT16)
    assert allocated(full, "flat") == 1 * GB


def test_a_bucket_of_one_owner_is_reduced_where_it_is() -> None:
    single = plan(2, layers_of(P, P), reduce_bucket_size=P)
    assert "flat" not in {a.key for op in single.ops for a in op.allocates}


def test_a_rank_keeps_whole_the_gradients_that_touch_its_slice() -> None:
    # Slices of 1.5P: layer 1 straddles both, so either rank keeps two layers of three.
    kept = plan(2, layers_of(P, P, P), numerics=BFLOAT16, reduce_bucket_size=P).ops
    by_bucket = [a for op in kept for a in op.allocates if a.key.startswith("partition")]
    assert [[a.at(rank) for a in by_bucket] for rank in (0, 1)] == [
        [0, 2 * 2 * P],  # rank 0 owns none of layer 2, which comes first
        [2 * 2 * P, 0],
    ]


def test_float32_accumulation_keeps_the_slice_alone() -> None:
    accumulated = Numerics("bfloat16", "float32")
    kept = plan(2, layers_of(P, P, P), numerics=accumulated, reduce_bucket_size=P)
    by_rank = [
        sum(a.at(rank) for op in kept.ops for a in op.allocates if a.key.startswith("partition"))
        for rank in (0, 1)
    ]
    assert by_rank == [4 * 3 * P // 2] * 2


def test_zero1_holds_all_gradients_at_once_and_zero2_does_not() -> None:
    many = layers_of(*[P] * 8)
    knobs: dict[str, Any] = {"reduce_bucket_size": P, "numerics": BFLOAT16, "n_ranks": 8}
    stage1, stage2 = plan(1, many, **knobs), plan(2, many, **knobs)
    bucket, activation = 2 * P, 2
    assert peak(stage1) == 8 * 2 * P + bucket + activation  # in the first layer's backward
    # A gradient beside the bucket; later the slice's gradient, flat, and in float32.
    assert peak(stage2) == max(2 * P + bucket + 8 * activation, 2 * P + 2 * P + 4 * P)


def test_accumulated_gradients_are_kept_between_micro_batches() -> None:
    twice = plan(2, layers_of(P, P, micro_batches=2), reduce_bucket_size=P)
    keys = [a.key for op in twice.ops for a in op.allocates if a.kind == "gradients"]
    assert [key for key in keys if key[0] in "pa"] == [
        *("partition.0", "partition.1", "again.0", "again.1"),
    ]
    assert [op.micro_batch for op in twice.ops if op.name == "accumulate"] == [1]


def kept_by_rank(of: Plan) -> list[int]:
    made = [a for op in of.ops for a in op.allocates if a.key.startswith("partition")]
    return [sum(a.at(rank) for a in made) for rank in range(of.world_size)]


def test_ranks_keep_as_many_bytes_as_deepspeed_was_measured_to_keep() -> None:
    # `grads_in_partition` of each rank, float32, in 0.19.8 over four Gloo ranks.
    odd = uniform(layers=3, hidden=21, tokens=2)
    assert kept_by_rank(plan(2, odd, 4, reduce_bucket_size=500)) == [1764, 3612, 3612, 1848]
    sizes = {"layers": 2, "hidden": 16, "heads": 2, "vocab": 40, "seq": 6}
    words = [f"workload.{name}={value}" for name, value in sizes.items()]
    words += ["workload.model=gpt", "numerics.dtype=float32", "world_size=4"]
    words += ["schedule=deepspeed-2", "reduce_bucket_size=300"]
    gpt = load_scenario("lesson-zero3", words)
    assert kept_by_rank(plan_of(gpt)) == [11648, 8448, 12864, 11200]
