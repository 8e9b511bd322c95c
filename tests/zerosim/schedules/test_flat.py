"""Flat parameters: what each op allocates and moves, and the peaks that torch's allocator shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.zerosim.schedules.test_fsdp1 import LAYER, LAYERS, plan
from zerosim.kinds import Kind
from zerosim.plan import Op, Plan

MIXED = {"dtype": "bfloat16", "storage_dtype": "float32"}


def peak(made: Plan) -> float:
    """The most that the last step allocates beyond what stays, in layers of float32."""
    held: dict[str, int] = {}
    now = most = 0
    for op in made.ops:
        for allocation in op.allocates:
            held[allocation.key] = allocation.nbytes
            now += allocation.nbytes
        most = max(most, now)
        for key in op.frees:
            now -= held.pop(key)
    return most / (4 * LAYER)


# Peaks of torch 2.13's CPU allocator in the same settings, in layers of float32, measured under the
# fake backend; tests/runtime/equality/test_fsdp1.py measures them again.
@pytest.mark.parametrize(
    ("n_ranks", "micro_batches", "numerics", "options", "layers"),
    [
        (2, 1, None, {}, 5.0),
        (4, 1, None, {}, 4.5),
        (2, 1, None, {"backward_prefetch": "BACKWARD_POST"}, 4.5),
        (2, 1, None, {"backward_prefetch": "NO_PREFETCH"}, 4.5),
        (2, 1, None, {"forward_prefetch": True}, 6.5),
        (2, 1, None, {"sharding_strategy": "SHARD_GRAD_OP"}, 6.0),
        (2, 1, None, {"sharding_strategy": "NO_SHARD"}, 5.0),
        (2, 2, None, {"no_sync": True}, 8.0),
        (2, 2, None, {}, 6.0),
        (2, 1, MIXED, {}, 3.0),
        (2, 1, MIXED | {"reduce_dtype": "float32"}, {}, 3.5),
        (2, 2, MIXED, {"no_sync": True}, 4.0),
        (2, 1, MIXED, {"sharding_strategy": "NO_SHARD"}, 4.5),
    ],
)
def test_four_layers_peak_where_torch_does(
    n_ranks: int,
    micro_batches: int,
    numerics: dict[str, Any] | None,
    options: dict[str, Any],
    layers: float,
) -> None:
    workload = LAYERS | {"layers": 4, "micro_batch": 1, "micro_batches": micro_batches}
    made = plan(workload, n_ranks, numerics, **options)
    assert peak(made) == pytest.approx(layers, abs=0.02)  # activations are what is beyond


def one(made: Plan, name: str, stream: str) -> Op:
    """The last op of that name on that stream."""
    return [op for op in made.ops if op.name == name and op.stream == stream][-1]


def test_a_gradient_is_divided_before_and_after_so_that_neither_overflows() -> None:
    for n_ranks, after in ((2, False), (3, True), (4, True), (8, True)):
        made = plan(n_ranks=n_ranks)
        scaled = [op for op in made.ops if op.name == "copy0" and op.stream == "reduce_scatter"]
        assert len(scaled) == 3 * (1 + after), n_ranks


def test_a_gradient_that_does_not_divide_is_copied_into_a_padded_one() -> None:
    made = plan(LAYERS | {"hidden": 5}, n_ranks=4)
    (padded,) = [a for op in made.ops[-20:] for a in op.allocates if a.key == "padded.0"]
    assert (padded.kind, padded.nbytes) == ("buckets", 32 * 4)


def test_original_parameters_need_no_padded_copy() -> None:
    made = plan(LAYERS | {"hidden": 5}, n_ranks=4, use_orig_params=True)
    assert not any(a.key.startswith("padded") for op in made.ops for a in op.allocates)


def test_mixed_precision_casts_the_shard_on_a_stream_of_its_own() -> None:
    made = plan(numerics=MIXED)
    cast = one(made, "copy0", "copy")
    assert cast.memory_bytes == LAYER // 2 * (4 + 2)
    gather = made.ops[cast.id + 2]  # after the host's wait
    assert (gather.name, gather.after) == ("AG0", (cast.id,))
    assert gather.frees == ("cast.0",)


def test_a_shard_reduced_in_another_dtype_is_cast_to_the_stored_one() -> None:
    made = plan(numerics=MIXED)
    kept = one(made, "copy0", "reduce_scatter")
    assert [(a.key, a.nbytes) for a in kept.allocates] == [("kept.0.0", LAYER // 2 * 4)]
    assert "reduced.0.0" in kept.frees


def test_gradients_under_no_sync_add_up_whole() -> None:
    made = plan(LAYERS | {"micro_batches": 2}, no_sync=True)
    added = one(made, "add0", "compute")
    assert (added.micro_batch, added.memory_bytes) == (1, LAYER * 3 * 4)
    assert added.frees[0] == "flat.0.1"


def test_gradients_without_no_sync_add_up_in_shards() -> None:
    made = plan(LAYERS | {"micro_batches": 2})
    added = one(made, "copy0", "reduce_scatter")
    assert added.memory_bytes == LAYER // 2 * 3 * 4
    assert "reduced.0.1" in added.frees


def test_the_buckets_of_the_dashboard_are_the_flat_gradients() -> None:
    filled = [op for op in plan().ops if op.kind is Kind.FILL and op.step == 3]
    assert [(op.bucket, op.elements) for op in filled] == [(2, LAYER), (1, LAYER), (0, LAYER)]
