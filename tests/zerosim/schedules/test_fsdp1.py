"""FSDP1 as torch runs it: orders, volumes, sizes, states; each sentence is one of its settings."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.kinds import COMMUNICATION, Kind
from zerosim.plan import Op, Plan
from zerosim.scenario import Scenario, plan_of

LAYERS = {"model": "uniform", "layers": 3, "hidden": 512, "micro_batch": 2}
LAYER = 512 * 512 + 512
GPT = {"model": "gpt", "layers": 3, "hidden": 8, "heads": 2, "vocab": 11, "seq": 4}


def plan(
    workload: dict[str, Any] = LAYERS,
    n_ranks: int = 2,
    numerics: dict[str, Any] | None = None,
    steps: int = 3,
    **options: Any,
) -> Plan:
    return plan_of(
        Scenario.from_dict(
            {
                "name": "fsdp1",
                "workload": workload,
                "schedule": {"name": "fsdp1", **options},
                "cluster": {"name": "classroom", "world_size": n_ranks},
                "numerics": numerics or {"dtype": "float32"},
                "run": {"steps": steps},
            }
        )
    )


def order(workload: dict[str, Any] = LAYERS, n_ranks: int = 2, **options: Any) -> str:
    """The order of a steady step, without its update."""
    made = plan(workload, n_ranks, **options)
    return made.order_of(made.steady_from).removesuffix(" OPT")


def collectives(made: Plan, *kinds: Kind) -> list[Op]:
    """The communication of the last step, of these kinds if any are given."""
    last = made.ops[-1].step
    return [op for op in made.ops if op.step == last and op.kind in (kinds or COMMUNICATION)]


# Check case D16.
def test_the_next_unit_of_the_backward_is_gathered_before_this_one_computes() -> None:
    assert order() == "AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0"


def test_without_prefetch_the_backward_gathers_on_demand() -> None:
    assert (
        order(backward_prefetch="NO_PREFETCH")
        == "AG0 F0 AG1 F1 AG2 F2 AG2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0"
    )


def test_backward_post_gathers_the_next_unit_between_a_backward_and_its_reduction() -> None:
    assert (
        order(backward_prefetch="BACKWARD_POST")
        == "AG0 F0 AG1 F1 AG2 F2 AG2 B2 AG1 RS2 B1 AG0 RS1 B0 RS0"
    )


# Check case D17.
def test_shard_grad_op_keeps_what_the_forward_gathered() -> None:
    assert order(sharding_strategy="SHARD_GRAD_OP") == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 B1 RS1 B0 RS0"


def test_no_shard_all_reduces_each_flat_gradient() -> None:
    assert order(sharding_strategy="NO_SHARD") == "F0 F1 F2 B2 AR2 B1 AR1 B0 AR0"


def test_one_rank_shards_nothing() -> None:
    assert order(n_ranks=1) == "F0 F1 F2 B2 AR2 B1 AR1 B0 AR0"


def test_the_root_is_gathered_once_and_reduced_last() -> None:
    assert order(GPT) == (
        "AGroot Femb AG0 F0 AG1 F1 AG2 F2 Fhead AG2 Bhead AG1 B2 RS2 AG0 B1 RS1 B0 RS0 Bemb RSroot"
    )


def test_if_only_the_root_is_wrapped_everything_travels_at_once() -> None:
    made = plan(wrap="root")
    assert made.order_of(3) == "AGroot F0 F1 F2 B2 B1 B0 RSroot OPT"
    assert [op.elements for op in collectives(made)] == [3 * LAYER, 3 * LAYER]


def test_prefetching_in_the_forward_reduces_a_unit_after_the_backward_of_the_one_before() -> None:
    # Note [Gradients are complete when autograd says so]
    assert order(forward_prefetch=True) == "AG0 AG1 F0 AG2 F1 F2 AG2 AG1 B2 AG0 B1 RS2 B0 RS1 RS0"


def test_the_root_is_what_prefetches_the_first_unit() -> None:
    assert order(GPT, forward_prefetch=True) == (
        "AGroot AG0 Femb AG1 F0 AG2 F1 F2 Fhead AG2 Bhead AG1 B2 AG0 B1 RS2 B0 RS1 Bemb RS0 RSroot"
    )


def test_forward_prefetch_needs_an_order_that_the_first_forward_records() -> None:
    made = plan(forward_prefetch=True)
    assert made.order_of(1) == plan().order_of(1)
    assert made.order_of(2) != plan().order_of(2)


def test_the_second_micro_batch_prefetches_by_the_order_of_the_first() -> None:
    first, second = (
        plan(LAYERS | {"micro_batches": 2}, forward_prefetch=True).order_of(1).split(" RS0 ", 1)
    )
    assert first.startswith("AG0 F0 AG1 F1")
    assert second.startswith("AG0 AG1 F0 AG2 F1")


# Check case C7: reductions 1, gathers 2k.
def test_under_no_sync_only_the_last_micro_batch_reduces() -> None:
    quiet = "AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 AG0 B1 B0"
    loud = "AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0"
    assert order(LAYERS | {"micro_batches": 3}, no_sync=True) == f"{quiet} {quiet} {loud}"


def test_without_no_sync_every_micro_batch_reduces() -> None:
    once = order()
    assert order(LAYERS | {"micro_batches": 2}) == f"{once} {once}"


def test_under_no_sync_shard_grad_op_gathers_once_a_step() -> None:
    quiet = "AG0 F0 AG1 F1 AG2 F2 B2 B1 B0"
    assert (
        order(LAYERS | {"micro_batches": 2}, no_sync=True, sharding_strategy="SHARD_GRAD_OP")
        == f"{quiet} F0 F1 F2 B2 RS2 B1 RS1 B0 RS0"
    )


def test_hybrid_shards_within_groups_and_all_reduces_the_shards_between_them() -> None:
    made = plan(n_ranks=4, sharding_strategy="HYBRID_SHARD", shard_mesh_size=2)
    assert (
        made.order_of(2) == "AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 RS2 AR2 AG0 B1 RS1 AR1 B0 RS0 AR0 OPT"
    )
    assert [(a.name, a.size, a.stride) for a in made.axes] == [
        ("shard", 2, 1),
        ("replicate", 2, 2),
    ]
    assert {(op.group, op.elements) for op in collectives(made, Kind.REDUCE_SCATTER)} == {
        ("shard", LAYER)
    }
    assert {(op.group, op.elements) for op in collectives(made, Kind.ALL_REDUCE)} == {
        ("replicate", LAYER // 2)
    }


def test_hybrid_zero2_gathers_in_the_forward_alone() -> None:
    assert (
        order(n_ranks=4, sharding_strategy="_HYBRID_SHARD_ZERO2", shard_mesh_size=2)
        == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AR2 B1 RS1 AR1 B0 RS0 AR0"
    )


@pytest.mark.parametrize(("n_ranks", "size"), [(16, 8), (4, 4), (12, 6), (11, 11)])
def test_a_hybrid_group_is_a_node_unless_told_otherwise(n_ranks: int, size: int) -> None:
    assert plan(n_ranks=n_ranks, sharding_strategy="HYBRID_SHARD").axes[0].size == size


# Check case C4: FULL_SHARD sends 3Ψ(N-1)/N elements a rank, SHARD_GRAD_OP 2Ψ(N-1)/N.
@pytest.mark.parametrize(("strategy", "passes"), [("FULL_SHARD", 3), ("SHARD_GRAD_OP", 2)])
def test_volumes_are_the_closed_forms(strategy: str, passes: int) -> None:
    made = plan(n_ranks=8, sharding_strategy=strategy)
    moved = sum(op.elements or 0 for op in collectives(made))
    assert moved * 7 // 8 == passes * 3 * LAYER * 7 // 8


def test_a_unit_is_padded_so_that_it_divides() -> None:
    made = plan(LAYERS | {"hidden": 5}, n_ranks=4)
    assert {op.elements for op in collectives(made)} == {32}  # 25 + 5 = 30


def test_original_parameters_start_at_multiples_of_16_bytes() -> None:
    made = plan(LAYERS | {"hidden": 5}, n_ranks=3, use_orig_params=True)
    assert {op.elements for op in collectives(made)} == {33}  # 25, 3 to align, 5: that divides by 3
    made = plan(LAYERS | {"hidden": 5}, 3, {"dtype": "bfloat16"}, use_orig_params=True)
    assert {op.elements for op in collectives(made)} == {39}  # 25, 7 to align, 5, 2 to divide by 3


def test_the_optimizer_holds_states_of_padding_unless_parameters_are_the_original_ones() -> None:
    flat = plan(LAYERS | {"hidden": 5}, n_ranks=4).persistent[1]
    assert (flat.nbytes, flat.by_rank) == (3 * 8 * 8, None)
    original = plan(LAYERS | {"hidden": 5}, n_ranks=4, use_orig_params=True).persistent[1]
    # 25 weights, 3 to align, 5 biases, 3 to divide by 4: ranks own 9, 9, 7 and 5 of them.
    assert original.by_rank == ((2, 3 * 9 * 8), (1, 3 * 7 * 8), (1, 3 * 5 * 8))


def test_mixed_precision_gathers_and_reduces_in_its_own_dtypes() -> None:
    mixed = {"dtype": "bfloat16", "storage_dtype": "float32", "reduce_dtype": "float32"}
    made = plan(numerics=mixed)
    assert {op.dtype for op in collectives(made, Kind.ALL_GATHER)} == {"bfloat16"}
    assert {op.dtype for op in collectives(made, Kind.REDUCE_SCATTER)} == {"float32"}
    assert made.persistent[0].nbytes == 3 * LAYER // 2 * 4


def test_recomputation_gathers_nothing_more_and_comes_after_the_prefetch() -> None:
    made = plan(LAYERS | {"checkpointing": "full"})
    shown = (Kind.ALL_GATHER, Kind.RECOMPUTE, Kind.BACKWARD, Kind.REDUCE_SCATTER)
    last = [op.name for op in made.ops if op.step == 3 and op.kind in shown]
    assert " ".join(last[3:]) == "AG2 AG1 R2 B2 RS2 AG0 R1 B1 RS1 R0 B0 RS0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sharding_strategy": "ZERO3"}, r"sharding_strategy is 'ZERO3': torch knows FULL_SHARD"),
        ({"backward_prefetch": "PRE"}, r"backward_prefetch is 'PRE': torch knows BACKWARD_PRE"),
        ({"wrap": "block"}, r"wrap is 'block': torch knows layers, root"),
        ({"shard_mesh_size": 2}, r"shard_mesh_size is 2 with FULL_SHARD: torch shards within"),
        (
            {"shard_mesh_size": 1, "sharding_strategy": "HYBRID_SHARD"},
            r"shard_mesh_size is 1: torch turns a group of one into NO_SHARD",
        ),
        (
            {"shard_mesh_size": 4, "sharding_strategy": "HYBRID_SHARD"},
            r"shard_mesh_size is 4 of 2 ranks: give a size that divides them",
        ),
    ],
)
def test_what_torch_refuses_is_refused_with_its_reason(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        plan(**options)


def test_gradients_of_another_dtype_than_the_parameters_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"FSDP1 makes gradients in the parameters' dtype"):
        plan(numerics={"dtype": "bfloat16", "grad_dtype": "float32"})


def test_what_we_do_not_model_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match=r"no fsdp1 option 'cpu_offload'"):
        plan(cpu_offload=True)
