"""Megatron-LM's distributed optimizer: its sequences, buckets, bytes, and what it refuses."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.plan import Plan
from zerosim.scenario import load_scenario, plan_of, run

LAYER = 768 * 768 + 768
EARLY = ("overlap_grad_reduce=true", f"bucket_size={LAYER}", "steps=2")
BOTH = (*EARLY, "overlap_param_gather=true")


def plan(*words: str) -> Plan:
    return plan_of(load_scenario("lesson-zero3", ("schedule=megatron", *words)))


def test_without_overlap_there_is_one_bucket_reduced_and_gathered_at_the_end() -> None:
    assert plan().order == "F0 F1 F2 B2 B1 B0 RS2-0 ARnorm OPT AG2-0"
    assert plan(f"bucket_size={LAYER}").order == plan().order


def test_a_bucket_is_reduced_as_soon_as_its_gradients_are_there() -> None:
    early = plan(*EARLY)
    assert early.order_of(2) == "F0 F1 F2 B2 RS2 B1 RS1 B0 RS0 ARnorm OPT AG2 AG1 AG0"
    # The first step counts which gradients a bucket gets.
    assert early.order_of(1) == "F0 F1 F2 B2 B1 B0 RS2 RS1 RS0 ARnorm OPT AG2 AG1 AG0"
    assert early.steady_from == 2


def test_the_next_forward_gathers_one_bucket_ahead() -> None:
    both = plan(*BOTH)
    assert both.order_of(2) == "AG0 AG1 F0 AG2 F1 F2 B2 RS2 B1 RS1 B0 RS0 ARnorm OPT"
    # The first forward finds the parameters whole.
    assert both.order_of(1) == "F0 F1 F2 B2 B1 B0 RS2 RS1 RS0 ARnorm OPT"
    assert both.steady_from == 2


def test_a_gather_waits_for_what_the_computing_stream_was_given_before_it() -> None:
    ops = plan(*BOTH).ops
    gather = next(op for op in ops if op.step == 2 and op.name == "AG2")
    assert [ops[i].name for i in gather.after] == ["F0"]
    forward = next(op for op in ops if op.step == 2 and op.name == "F1")
    assert [ops[i].name for i in forward.after] == ["AG1"]


def test_only_the_first_micro_batch_gathers_and_only_the_last_reduces() -> None:
    assert plan(*BOTH, "micro_batches=2").order_of(2) == (
        "AG0 AG1 F0 AG2 F1 F2 B2 B1 B0 F0 F1 F2 B2 RS2 B1 RS1 B0 RS0 ARnorm OPT"
    )


def test_the_update_waits_for_every_reduction() -> None:
    ops = [op for op in plan(*EARLY).ops if op.step == 2]
    reductions = {op.id for op in ops if op.kind is Kind.REDUCE_SCATTER}
    norm = next(op for op in ops if op.name == "norm")
    assert set(norm.after) == reductions


def test_buckets_go_by_the_modules_and_parameters_used_twice_complete_with_their_first() -> None:
    words = ("model=gpt", "layers=1", "hidden=64", "heads=4", "vocab=100", "seq=4", "tied=true")
    order = plan(*words, "overlap_grad_reduce=true", "bucket_size=1", "steps=2").order_of(2)
    # One bucket a parameter: the norm's two after the head, the shared embedding after its layer.
    assert order.startswith("Femb F0 Fhead Bhead RSroot RSroot B0 RS0 ")
    assert order.endswith(
        "Bemb RSroot RSroot ARnorm OPT AGroot AGroot" + " AG0" * 12 + " AGroot" * 2
    )


# Check case A12: 6 + 12/N bytes a parameter with bfloat16 parameters and float32 gradients.
def test_gradients_stay_whole_in_float32() -> None:
    trace = run(
        load_scenario(
            "lesson-zero3", ["schedule=megatron", "world_size=64", "dtype=bfloat16", "hidden=1024"]
        )
    )
    psi = 3 * (1024 * 1024 + 1024)
    states = trace.meta.states[0]
    assert (states.parameters, states.gradients) == (2 * psi, 4 * psi)
    assert (states.parameters + states.gradients + states.optimizer) / psi == 6.1875


@pytest.mark.parametrize(
    ("words", "dtype"),
    [
        (("dtype=bfloat16",), "float32"),
        (("dtype=bfloat16", "grad_reduce_in_fp32=false"), "bfloat16"),
        (("dtype=float16",), "float16"),
        (("dtype=float16", "accumulate_allreduce_grads_in_fp32=true"), "float32"),
    ],
)
def test_bfloat16_parameters_have_float32_gradients_unless_told_otherwise(
    words: tuple[str, ...], dtype: str
) -> None:
    (reduced,) = (op for op in plan(*words).ops if op.kind is Kind.REDUCE_SCATTER)
    assert reduced.dtype == dtype


def test_16_bit_gradients_are_copied_to_float32_for_the_update() -> None:
    ops = plan("dtype=float16", "world_size=8").ops
    copies = [a for op in ops for a in op.allocates if a.kind == "workspace"]
    assert [a.nbytes for a in copies] == [3 * LAYER // 8 * 4]
    assert "ARoverflow ARnorm OPT" in plan("dtype=float16").order


def test_one_gradient_at_a_time_lies_beside_the_buffer() -> None:
    made = [a.nbytes for op in plan().ops for a in op.allocates if a.key == "gradient"]
    assert made == [768 * 768 * 4] * 3


def test_buckets_are_padded_and_more_so_for_high_bus_bandwidth() -> None:
    def elements(*words: str) -> int:
        return sum(op.elements or 0 for op in plan(*words).ops if op.kind is Kind.ALL_GATHER)

    assert elements("hidden=100", "world_size=6") == 30720  # 30480 to lcm(6, 128) = 384
    assert elements("hidden=100", "pad_buckets_for_high_nccl_busbw=true") == 3 * 2**16


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("overlap_param_gather=true", "Must use --overlap-param-gather with --overlap-grad-reduce"),
        ("bucket_size=0", "schedule.bucket_size is 0: give at least 1 element"),
    ],
)
def test_what_the_engine_refuses_is_refused(word: str, sentence: str) -> None:
    with pytest.raises(ScenarioError, match=sentence):
        plan(word)
