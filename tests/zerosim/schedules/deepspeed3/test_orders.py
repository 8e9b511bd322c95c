"""DeepSpeed ZeRO-3 as measured: the order of each setting, step 1 and the steady one, as one line."""

from __future__ import annotations

import pytest

from tests.zerosim.schedules.deepspeed3.models import P, model, on_demand, order, plan, sizes
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.scenario import load_scenario, plan_of
from zerosim.schedules.deepspeed3 import DeepSpeed3Options, deepspeed_3

RECORDED = "AG0 F0 AG1 F1 AG2 F2 AG2 B2 AG1 B1 AG0 B0"


# Check case D1.
def test_a_reuse_distance_of_one_keeps_the_last_layer_and_reduces_inside_the_next_backward() -> (
    None
):
    made = plan(**on_demand(reduce_bucket_size=P))
    assert order(made, 1) == f"{RECORDED[:-6]}RS2 AG0 B0 RS1 RS0"
    steady = "AG0 F0 AG1 F1 AG2 F2 B2 AG1 B1 RS2 AG0 B0 RS1 RS0"
    assert order(made, 2) == order(made, 3) == steady
    assert sizes(made, Kind.ALL_GATHER, 3) == [P] * 5
    assert sizes(made, Kind.REDUCE_SCATTER, 3) == [P] * 3


# Check case D2.
def test_without_prefetch_and_reuse_every_layer_is_gathered_twice() -> None:
    made = plan(stage3_prefetch_bucket_size=0, stage3_max_reuse_distance=0)
    assert order(made, 3) == f"{RECORDED} RS2-0"
    assert sizes(made, Kind.REDUCE_SCATTER, 3) == [3 * P]


@pytest.mark.parametrize("prefetch", [0, P, 50_000_000])
@pytest.mark.parametrize("reuse", [0, 1, 2 * P + 1, 1_000_000_000])
def test_step_one_records_and_gathers_every_layer_twice_whatever_the_knobs(
    prefetch: int, reuse: int
) -> None:
    made = plan(stage3_prefetch_bucket_size=prefetch, stage3_max_reuse_distance=reuse)
    assert order(made, 1) == f"{RECORDED} RS2-0"


# Check case D3.
@pytest.mark.parametrize("reuse", [0, 1])
def test_a_prefetch_bucket_of_one_layer_gathers_one_layer_ahead(reuse: int) -> None:
    made = plan(stage3_prefetch_bucket_size=P, stage3_max_reuse_distance=reuse)
    assert order(made, 3) == "AG0 AG1 F0 AG2 F1 AG1 F2 AG0 B2 B1 B0 RS2-0"


# Check case D4.
def test_a_reuse_distance_of_two_layers_keeps_the_middle_layer_too() -> None:
    made = plan(stage3_prefetch_bucket_size=P, stage3_max_reuse_distance=2 * P + 1)
    assert order(made, 3) == "AG0 AG1 F0 AG2 F1 AG0 F2 B2 B1 B0 RS2-0"


# Check case D5, and C4c: all is gathered once and reduced once, 2Ψ(N-1)/N.
def test_by_default_a_small_model_is_gathered_once_and_reduced_at_the_very_end() -> None:
    made = plan()
    assert order(made, 3) == "AG0-2 F0 F1 F2 B2 B1 B0 RS2-0"
    assert sizes(made, Kind.ALL_GATHER, 3) == sizes(made, Kind.REDUCE_SCATTER, 3) == [3 * P]
    assert sum(n or 0 for n in sizes(made, Kind.ALL_GATHER, 1)) == 6 * P  # C4c: step 1 sends 3Ψ


# Check case D6.
def test_max_live_parameters_limits_prefetching_and_nothing_else() -> None:
    made = plan(
        model(6),
        stage3_prefetch_bucket_size=P,
        stage3_max_reuse_distance=0,
        stage3_max_live_parameters=P,
    )
    forward = " ".join(f"AG{i} F{i}" for i in range(6))
    backward = " ".join(f"AG{i} B{i}" for i in reversed(range(6)))
    assert order(made, 3) == f"{forward} {backward} RS5-0"


# Check case D10. The measured layers add their bias after a product, so its gradient comes first.
def test_small_parameters_stay_and_are_gathered_one_by_one_after_the_step() -> None:
    made = plan(
        model(bias=True),
        stage3_param_persistence_threshold=1000,
        memory_efficient_linear=False,
        **on_demand(reduce_bucket_size=P),
    )
    after = "AG0.bias AG1.bias AG2.bias"
    assert order(made, 3) == (
        f"AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS2 RS1 AG0 B0 RS1 RS0 RS0 {after}"
    )
    assert sizes(made, Kind.ALL_GATHER, 1) == [P + 512] * 6 + [512] * 3
    assert sizes(made, Kind.ALL_GATHER, 3) == [P] * 5 + [512] * 3
    assert sizes(made, Kind.REDUCE_SCATTER, 3) == [512, P, 512, P, 512, P]


# Check case D24.
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_gathers_no_more_once_the_trace_is_known(reentrant: bool) -> None:
    made = plan(model(recompute=True), use_reentrant=reentrant, **on_demand(reduce_bucket_size=P))
    assert order(made, 3) == "AG0 F0 AG1 F1 AG2 F2 B2 AG1 B1 RS2 AG0 B0 RS1 RS0"
    names = [op.name for op in made.ops if op.step == 3]
    assert all(names.index(f"R{i}") + 1 == names.index(f"B{i}") for i in range(3))


def test_reentrant_checkpointing_gathers_nine_times_while_recording() -> None:
    made = plan(model(recompute=True), use_reentrant=True, **on_demand())
    assert order(made, 1) == "AG0 F0 AG1 F1 AG2 F2 AG2 AG2 B2 AG1 AG1 B1 AG0 AG0 B0 RS2-0"


@pytest.mark.parametrize(("reentrant", "again"), [(False, False), (True, True)])
def test_only_a_checkpoint_that_is_not_reentrant_stops_before_the_last_product(
    reentrant: bool, again: bool
) -> None:
    words = ["schedule=deepspeed-3", "layers=2", "hidden=8", "heads=2", "vocab=10", "world_size=2"]
    full = ["checkpointing=full", "early_stop=true", f"use_reentrant={reentrant}"]
    made = plan_of(load_scenario("gpt2-1.5b", [*words, *full]))
    names = [op.name for op in made.ops]
    assert names.count("R1.mlp.up") == 1
    assert ("R1.mlp.down" in names) is again


# Check case C7: every micro-batch gathers and reduces.
def test_every_micro_batch_gathers_and_reduces() -> None:
    made = plan(model(micro_batches=2), **on_demand())
    once = "AG0 F0 AG1 F1 AG2 F2 B2 AG1 B1 AG0 B0 RS2-0"
    assert order(made, 1) == f"{RECORDED} RS2-0 {once}"
    assert order(made, 3) == f"{once} {once}"


def test_a_step_ends_with_one_norm_and_one_update_for_each_sub_group() -> None:
    made = plan(sub_group_size=P // 2)
    assert made.order_of(3).split()[-6:] == ["ARnorm", "ARnorm", "ARnorm", "OPT0", "OPT1", "OPT2"]


def test_without_reduce_scatter_the_bucket_is_all_reduced() -> None:
    made = plan(reduce_scatter=False, **on_demand(reduce_bucket_size=P))
    assert order(made, 3) == "AG0 F0 AG1 F1 AG2 F2 B2 AG1 B1 AR2 AG0 B0 AR1 AR0"


def test_a_leaf_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no leaf_module '7'"):
        plan(leaf_module="7")


def test_without_overlap_everything_but_gathers_runs_with_the_computation() -> None:
    made = plan(overlap_comm=False, **on_demand())
    assert {op.stream for op in made.ops if op.kind is Kind.REDUCE_SCATTER} == {"compute"}
    assert {op.stream for op in made.ops if op.kind is Kind.ALL_GATHER} == {"all_gather"}


def test_what_the_engine_refuses_is_refused_with_its_bound() -> None:
    with pytest.raises(ScenarioError, match="reduce_bucket_size is 0: DeepSpeed takes 1 or more"):
        DeepSpeed3Options(reduce_bucket_size=0)
    with pytest.raises(ScenarioError, match="stage3_max_live_parameters is -1"):
        DeepSpeed3Options(stage3_max_live_parameters=-1)
    with pytest.raises(ScenarioError, match="grad_accum_dtype is 'half'"):
        DeepSpeed3Options(grad_accum_dtype="half")


def test_a_leaf_on_data_is_refused_since_the_engine_fails_there() -> None:
    with pytest.raises(ScenarioError, match="module '0' would be a leaf, and its input has no"):
        plan(leaf_module="0")
    with pytest.raises(ScenarioError, match="module 'root' would be a leaf"):
        plan(stage3_module_granularity_threshold=P)


def test_gathering_one_by_one_leaves_a_prefetch_of_one_parameter() -> None:
    made = plan(stage3_allgather_sequential=True, stage3_max_reuse_distance=0)
    assert order(made, 3) == "AG0 AG1 F0 AG2 F1 AG1 F2 AG0 B2 B1 B0 RS2-0"


def test_gradients_travel_in_the_dtype_of_the_run_whatever_they_are_kept_in() -> None:
    kept = Numerics("bfloat16", "float32")
    dtypes = {
        knobs.communication_data_type: {
            op.dtype
            for op in deepspeed_3(model(), 2, kept, knobs).ops
            if op.kind is Kind.REDUCE_SCATTER
        }
        for knobs in (DeepSpeed3Options(), DeepSpeed3Options(communication_data_type="fp32"))
    }
    assert dtypes == {None: {"bfloat16"}, "fp32": {"float32"}}


def test_a_dtype_that_deepspeed_does_not_train_in_is_refused() -> None:
    with pytest.raises(ScenarioError, match="DeepSpeed trains in"):
        deepspeed_3(model(), 2, Numerics("float64", "float64"), DeepSpeed3Options())
