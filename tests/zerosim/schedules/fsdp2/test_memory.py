"""FSDP2's buffers: when each is alive, in the order in which the host takes and drops them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zerosim.memory.allocator import SMALL_SEGMENT, segment_bytes
from zerosim.memory.reserved import reserved
from zerosim.plan import Plan
from zerosim.scenario import load_scenario, plan_of

P = 64 * 64 + 64  # elements of a layer; divides by two ranks without padding
BASE = ("hidden=64", "world_size=2", "layers=4")
MIXED = ("dtype=bfloat16", "storage_dtype=float32", "reduce_dtype=float32")
SHARDS = ("reduced.", "sharded_gradient.", "partial.")


def plan(*words: str, **more: Any) -> Plan:
    given = ["schedule=fsdp2", *BASE, *words, *(f"{k}={v}" for k, v in more.items())]
    return plan_of(load_scenario("lesson-zero3", given))


def alive(found: Plan, name: str, which: int = 0) -> dict[str, int]:
    """What is held while the op is issued: after it allocates, before it frees; but activations."""
    live: dict[str, int] = {}
    seen = 0
    for op in found.ops:
        live.update({a.key: a.nbytes for a in op.allocates if a.kind != "activations"})
        seen += op.name == name
        if seen == which + 1:
            return live
        for key in op.frees:
            live.pop(key, None)
    raise AssertionError(name)


def whole(found: Plan, name: str, which: int = 0) -> int:
    """Bytes of the buffers alive then, without this rank's shards."""
    held = alive(found, name, which)
    return sum(n for key, n in held.items() if not key.startswith(SHARDS))


# Check case I1.
def test_a_forward_holds_two_copies_of_a_layer() -> None:
    found = plan("dtype=bfloat16")
    assert alive(found, "copy-out1") == {"all_gather.1": 2 * P, "unsharded.1": 2 * P}
    forward = [op.name for op in found.ops[: [op.name for op in found.ops].index("F3") + 1]]
    assert max(whole(found, name) for name in forward) == 4 * P


# Check case I1: copies of a layer on two streams cannot share memory, so three are reserved.
def test_a_forward_reserves_three_copies_of_a_layer() -> None:
    found = plan("dtype=bfloat16", hidden=4096, micro_batch=1)
    names = [op.name for op in found.ops]
    forward = replace(found, ops=found.ops[: names.index("F3") + 1], persistent=())
    layer = 2 * (4096 * 4096 + 4096)
    assert reserved(forward).peak_bytes == 3 * segment_bytes(layer) + SMALL_SEGMENT  # activations


# Check case I2.
def test_a_backward_holds_ten_bytes_an_element_before_the_copy_in_and_eight_after() -> None:
    found = plan(*MIXED)
    assert {k: n for k, n in alive(found, "B2").items() if not k.startswith(SHARDS)} == {
        "unsharded.2": 2 * P,
        "gradient.2": 2 * P,
        "all_gather.1": 2 * P,
        "reduce_scatter.3": 4 * P,
    }
    assert whole(found, "B2") == 10 * P
    assert {k: n for k, n in alive(found, "chunk-cat2").items() if not k.startswith(SHARDS)} == {
        "gradient.2": 2 * P,
        "all_gather.1": 2 * P,
        "reduce_scatter.2": 4 * P,
    }
    assert whole(found, "chunk-cat2") == 8 * P


def test_the_output_of_a_gather_is_kept_until_the_next_copy_out() -> None:
    found = plan()
    assert alive(found, "copy-in1") == {"all_gather.0": 4 * P, "all_gather.1": 4 * P}
    assert alive(found, "copy-out1") == {"all_gather.1": 4 * P, "unsharded.1": 4 * P}


def test_a_cast_takes_a_flat_copy_of_the_shard_for_a_moment() -> None:
    found = plan(*MIXED)
    assert alive(found, "copy-in0")["cast.0"] == 2 * P // 2
    assert "cast.0" not in alive(found, "AG0")


def test_two_input_buffers_hold_one_more_reduction() -> None:
    found = plan(*MIXED, set_reduce_scatter_max_input_buffers=2)
    assert [key for key in alive(found, "B1") if key.startswith("reduce_scatter")] == [
        "reduce_scatter.3",
        "reduce_scatter.2",
    ]


def test_each_rank_stores_its_rows_in_the_storage_dtype_and_adam_keeps_two_moments() -> None:
    held = {a.key: a.nbytes for a in plan(*MIXED).persistent}
    assert held == {"parameters": 4 * P // 2 * 4, "optimizer": 4 * P // 2 * 8}


def test_reduced_gradients_live_until_the_update() -> None:
    found = plan(*MIXED)
    reduced = [key for key in alive(found, "OPT") if key.startswith(SHARDS)]
    assert reduced == ["reduced.3.0", "reduced.2.0", "reduced.1.0", "reduced.0.0"]
    assert set(found.ops[-1].frees) == set(reduced)


def test_a_reduction_in_another_dtype_is_cast_into_the_one_of_the_parameters() -> None:
    found = plan("dtype=bfloat16", "reduce_dtype=float32")
    assert alive(found, "cast3")["reduced.3.0"] == 4 * P // 2
    assert alive(found, "OPT")["sharded_gradient.3.0"] == 2 * P // 2
    assert "reduced.3.0" not in alive(found, "OPT")


def test_hybrid_sharding_keeps_what_it_all_reduced_until_the_backward_ends() -> None:
    found = plan("dtype=bfloat16", "reduce_dtype=float32", shard_mesh_size=2, world_size=4)
    reduced = {f"reduced.{i}.0" for i in (3, 2, 1, 0)}
    assert reduced < set(alive(found, "cast0"))
    assert not reduced & set(alive(found, "OPT"))


def test_unreduced_gradients_are_kept_whole_in_the_dtype_of_the_reduction() -> None:
    found = plan(*MIXED, micro_batches=2, set_requires_gradient_sync="false")
    assert alive(found, "F0", 1)["accumulated.0"] == 4 * P
    assert "gradient.0" not in alive(found, "F0", 1)
    second = alive(found, "add3")
    assert second["gradient.3"] == 2 * P
    assert second["accumulated.3"] == 4 * P


def test_unreduced_gradients_of_the_same_dtype_are_added_to_one_parameter_at_a_time() -> None:
    found = plan(micro_batches=2, set_requires_gradient_sync="false")
    assert alive(found, "B0", 1)["gradient.0"] == 4 * P
    assert alive(found, "B0", 1)["added.0"] == 64 * 64 * 4
    assert "added.0" not in alive(found, "OPT")


def test_a_tied_embedding_adds_to_the_gradient_that_the_head_made() -> None:
    sizes = ("model=gpt", "layers=2", "heads=2", "vocab=100", "seq=8", "tied=true")
    found = plan(*sizes)
    made = alive(found, "Bemb")
    assert made["gradient.head"] == (100 * 64 + 2 * 64) * 4  # the table and the norm
    assert made["gradient.emb"] == 8 * 64 * 4  # positions
    assert made["added.emb"] == 100 * 64 * 4


@pytest.mark.parametrize("words", [(), ("reshard_after_forward=2", "world_size=4")])
def test_nothing_is_left_after_the_update(words: tuple[str, ...]) -> None:
    found = plan(*words, micro_batches=2, steps=2)
    left = alive(found, "OPT", 1)
    assert set(left) == set(found.ops[-1].frees)
