"""FSDP2: the orders torch 2.13 was measured to issue, what waits for what, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.plan import Op, Plan
from zerosim.scenario import load_scenario, plan_of

TRANSFORMER = ("model=gpt", "layers=2", "hidden=8", "heads=2", "vocab=16", "seq=4")


def plan(*words: str, **more: Any) -> Plan:
    return plan_of(
        load_scenario(
            "lesson-zero3", ["schedule=fsdp2", *words, *(f"{k}={v}" for k, v in more.items())]
        )
    )


def order(*words: str, **more: Any) -> str:
    return plan(*words, **more).order


def named(found: Plan, name: str) -> list[Op]:
    return [op for op in found.ops if op.name == name]


def waited(found: Plan, op: Op) -> list[str]:
    return [found.ops[i].name for i in op.after]


# Check case D11.
def test_the_last_layer_is_gathered_again_and_each_backward_gathers_the_one_before() -> None:
    assert order() == "AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0 OPT"


# Check case D11 with parameters of the root: they stay, and its hook gathers the last layer.
def test_the_root_is_gathered_once_and_reduced_last() -> None:
    assert order(*TRANSFORMER) == (
        "AGroot Femb AG0 F0 AG1 F1 Fhead AG1 Bhead AG0 B1 RS1 B0 RS0 Bemb RSroot OPT"
    )


def test_a_root_that_is_resharded_is_gathered_again() -> None:
    assert order(*TRANSFORMER, reshard_after_forward="true") == (
        "AGroot Femb AG0 F0 AG1 F1 Fhead AGroot AG1 Bhead AG0 B1 RS1 B0 RS0 Bemb RSroot OPT"
    )


# Check case D12.
def test_with_the_last_layer_kept_it_is_the_textbook_sequence_one_layer_ahead() -> None:
    assert order(keep_last_layer="true") == "AG0 F0 AG1 F1 AG2 F2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0 OPT"


def test_what_is_not_resharded_is_not_gathered_again() -> None:
    assert order(reshard_after_forward="false") == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 B1 RS1 B0 RS0 OPT"


# Check case D13: forward gathers take P/4 from each rank, backward gathers P/2.
def test_resharded_to_two_of_four_ranks_the_backward_gathers_over_two() -> None:
    found = plan(reshard_after_forward=2, world_size=4)
    assert found.order == order()
    axes = {axis.name: axis for axis in found.axes}
    forward, backward = named(found, "AG0")
    layer = 768 * 768 + 768
    assert (forward.elements, axes[forward.group or ""].size) == (layer, 4)
    assert (backward.elements, axes[backward.group or ""].size) == (layer, 2)
    (kept,) = named(found, "reshard0")
    assert [(a.key, a.nbytes) for a in kept.allocates] == [("post_forward.0", layer * 4 // 2)]


# Check case D14.
def test_hybrid_sharding_reduce_scatters_in_a_shard_and_all_reduces_over_the_replicas() -> None:
    found = plan(shard_mesh_size=2, world_size=4)
    assert found.order == ("AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 RS2 AR2 AG0 B1 RS1 AR1 B0 RS0 AR0 OPT")
    (scattered,), (reduced,) = named(found, "RS0"), named(found, "AR0")
    assert [(axis.name, axis.size, axis.stride) for axis in found.axes] == [
        ("world", 4, 1),
        ("shard", 2, 1),
        ("replicate", 2, 2),
    ]
    layer = 768 * 768 + 768
    assert (scattered.group, scattered.elements) == ("shard", layer)
    assert (reduced.group, reduced.elements) == ("replicate", layer // 2)


# Check case D15.
def test_a_model_that_is_wrapped_whole_is_one_group() -> None:
    found = plan(wrap="root")
    assert found.order == "AG0-2 F0 F1 F2 B2 B1 B0 RS0-2 OPT"
    assert [op.elements for op in named(found, "AG0-2")] == [3 * (768 * 768 + 768)]


# Check case D24.
def test_activation_checkpointing_computes_again_and_gathers_no_more() -> None:
    found = plan(checkpointing="full")
    assert found.order == order()
    kinds = [op.name for op in found.ops if op.kind is Kind.RECOMPUTE]
    assert kinds == ["R2", "R1", "R0"]
    backward = [op.name for op in found.ops if op.name in ("AG1", "R2", "B2", "RS2")]
    assert backward == ["AG1", "AG1", "R2", "B2", "RS2"]


def test_a_forward_prefetch_of_one_layer_is_issued_in_the_hook_before() -> None:
    assert order(set_modules_to_forward_prefetch=1) == (
        "AG0 AG1 F0 AG2 F1 F2 AG2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0 OPT"
    )


def test_prefetching_two_layers_each_way() -> None:
    assert order(layers=5, forward_prefetch=2, backward_prefetch=2) == (
        "AG0 AG1 AG2 F0 AG3 F1 AG4 F2 F3 F4 "
        "AG4 AG3 AG2 B4 RS4 AG1 B3 RS3 AG0 B2 RS2 B1 RS1 B0 RS0 OPT"
    )


ONCE = "AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0"


# Check case C7: k micro-batches reduce k times, or once if told so; they gather 2k times.
def test_every_micro_batch_gathers_and_reduces_unless_told_otherwise() -> None:
    assert order(micro_batches=2) == f"{ONCE} {ONCE} OPT"


def test_without_gradient_sync_only_the_last_micro_batch_reduces() -> None:
    assert order(micro_batches=2, set_requires_gradient_sync="false") == (
        f"AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 AG0 B1 B0 {ONCE} OPT"
    )


def test_parameters_kept_after_the_backward_are_not_gathered_for_the_next_forward() -> None:
    words = {"set_requires_gradient_sync": "false", "set_reshard_after_backward": "false"}
    assert order(micro_batches=2, **words) == (
        "AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 AG0 B1 B0 F0 F1 F2 AG2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0 OPT"
    )


def test_replicas_are_reduced_in_the_last_micro_batch_only_if_told_so() -> None:
    words = ("layers=1", "micro_batches=3", "shard_mesh_size=2", "world_size=4")
    assert order(*words, set_requires_all_reduce="false") == (
        "AG0 F0 AG0 B0 RS0 AG0 F0 AG0 B0 RS0 AG0 F0 AG0 B0 RS0 AR0 OPT"
    )


def test_a_copy_in_waits_until_the_output_before_the_last_was_copied_out() -> None:
    found = plan()
    assert [waited(found, op) for op in named(found, "copy-in2")] == [
        ["copy-out0"],
        ["copy-out1", "copy-out2"],
    ]
    assert waited(found, named(found, "copy-in1")[1]) == ["copy-out2"]
    assert [op.stream for op in named(found, "copy-in2")] == ["copy", "copy"]


def test_a_copy_into_a_reduce_scatter_waits_for_the_reduce_scatter_before() -> None:
    found = plan()
    assert waited(found, named(found, "chunk-cat2")[0]) == []
    assert waited(found, named(found, "chunk-cat1")[0]) == ["RS2"]
    assert waited(found, named(found, "chunk-cat0")[0]) == ["RS1"]


def test_with_two_input_buffers_it_waits_for_the_one_before_that() -> None:
    found = plan(set_reduce_scatter_max_input_buffers=2)
    assert waited(found, named(found, "chunk-cat1")[0]) == []
    assert waited(found, named(found, "chunk-cat0")[0]) == ["RS2"]


def test_the_update_waits_for_the_reductions_and_the_next_gather_for_the_update() -> None:
    found = plan(steps=2)
    assert waited(found, named(found, "OPT")[0]) == ["RS0"]
    assert waited(found, named(found, "copy-in0")[2]) == ["copy-out0", "OPT"]


def test_reduce_scatters_share_the_communicator_of_the_gathers_unless_separated() -> None:
    shared, apart = plan(), plan(set_separate_reduce_scatter_group="true")
    assert {op.communicator for op in shared.ops if op.communicator} == {"world"}
    assert [op.communicator for op in named(apart, "RS0")] == ["world.reduce_scatter"]
    assert apart.order == shared.order


def test_float16_gradients_are_divided_before_and_after_the_reduction() -> None:
    words = ("dtype=float16", "world_size=4")
    names = [op.name for op in plan(*words).ops if op.stream == "reduce_scatter"]
    assert names[:3] == ["divide2", "RS2", "divide2"]
    assert not named(plan("dtype=bfloat16", "world_size=4"), "divide2")


def test_one_rank_copies_and_does_not_communicate() -> None:
    assert order(world_size=1) == "F0 F1 F2 B2 B1 B0 OPT"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("reshard_after_forward=2", "as an int it should be a factor of 3"),
        ("shard_mesh_size=2", "schedule.shard_mesh_size is 2 of 3 ranks: it must divide them"),
        ("set_modules_to_forward_prefetch=-1", "give 0 or more layers"),
        ("set_reduce_scatter_max_input_buffers=0", "max_input_buffers must be positive"),
        ("wrap=blocks", "schedule.wrap is 'blocks': give layers or root"),
        ("wrap=root keep_last_layer=true", "only a wrapped layer is kept"),
        ("wrap=root backward_prefetch=1", "only wrapped layers are prefetched"),
        ("grad_dtype=bfloat16", "numerics.grad_dtype is bfloat16 with dtype float32"),
    ],
)
def test_what_torch_refuses_is_refused(words: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        plan(*words.split())
    assert reason in str(refused.value)
