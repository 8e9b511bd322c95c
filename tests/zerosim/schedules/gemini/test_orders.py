"""Gemini's sequences: chunks given up lazily, prefetched along the recorded order, reduced when full."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.plan import Plan
from zerosim.scenario import load_scenario, plan_of, run

LAYER = 768 * 768 + 768
CHUNK_A_LAYER = f"chunk_size={LAYER}"


def plan(*words: str) -> Plan:
    return plan_of(load_scenario("lesson-zero3", ("schedule=gemini", *words)))


def test_the_last_chunk_of_the_forward_survives_to_its_backward() -> None:
    assert plan(CHUNK_A_LAYER).order == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"


def test_a_small_model_is_never_sharded() -> None:
    assert plan().order == "F0 F1 F2 B2 B1 B0 AR0-2 OPT"


def test_one_chunk_is_prefetched_along_the_order_that_the_first_backward_has_shown() -> None:
    made = plan(CHUNK_A_LAYER, "max_prefetch=1", "steps=2")
    assert made.order_of(1) == plan(CHUNK_A_LAYER).order
    assert made.order_of(2) == "AG0 AG1 F0 AG2 F1 AG1 F2 B2 RS2 AG0 B1 RS1 B0 RS0 OPT"
    assert made.steady_from == 2


def test_two_chunks_are_prefetched_even_one_just_given_up() -> None:
    made = plan(CHUNK_A_LAYER, "max_prefetch=2", "steps=2")
    assert made.order_of(2) == "AG0 AG1 AG2 F0 AG0 F1 AG1 F2 B2 RS2 B1 RS1 B0 RS0 OPT"


def test_a_share_of_the_parameters_may_stay_gathered() -> None:
    half = plan(CHUNK_A_LAYER, "shard_param_frac=0.5").order
    none = plan(CHUNK_A_LAYER, "shard_param_frac=0").order
    assert half == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 B1 RS1 AG0 B0 RS0 OPT"
    assert none == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 B1 RS1 B0 RS0 OPT"


def test_every_micro_batch_reduces_and_gradients_get_chunks_of_their_own() -> None:
    made = plan(CHUNK_A_LAYER, "micro_batches=2")
    assert made.order.split().count("RS1") == 2
    keys = {a.key for op in made.ops for a in op.allocates}
    assert {"gradients.1", "sums.1"} <= keys
    assert "sums.1" not in {a.key for op in plan(CHUNK_A_LAYER).ops for a in op.allocates}


def test_a_chunk_that_layers_share_is_reduced_when_it_has_all_gradients() -> None:
    assert plan("chunk_size=1200000").order == "AG0-1 F0 F1 AG2 F2 B2 RS2 AG0-1 B1 B0 RS0-1 OPT"


def test_gathers_run_in_line_and_prefetches_beside() -> None:
    gathers = [
        op.stream
        for op in plan(CHUNK_A_LAYER, "max_prefetch=1", "steps=2").ops
        if op.kind is Kind.ALL_GATHER and op.step == 2
    ]
    assert gathers == ["compute", "all_gather", "all_gather", "all_gather", "all_gather"]


def test_a_layer_waits_for_its_prefetched_chunk() -> None:
    ops = plan(CHUNK_A_LAYER, "max_prefetch=1", "steps=2").ops
    second = [op for op in ops if op.step == 2]
    forward = next(op for op in second if op.name == "F1")
    assert [ops[i].name for i in forward.after] == ["AG1"]


def test_the_host_waits_for_reductions_only_if_they_run_beside() -> None:
    def waits(*words: str) -> int:
        return sum(op.kind is Kind.WAIT for op in plan(CHUNK_A_LAYER, *words).ops)

    assert (waits(), waits("enable_async_reduce=false")) == (1, 0)


def test_norm_and_overflow_are_asked_for() -> None:
    assert plan("max_norm=1").order.endswith("AR0-2 ARnorm OPT")
    assert plan("dtype=float16").order.endswith("AR0-2 ARoverflow OPT")


# Per-rank states 14Ψ/N: gradients overwrite the parameters of their chunk.
def test_states_are_14_bytes_a_parameter_over_the_ranks() -> None:
    words = ["schedule=gemini", "world_size=8", "dtype=bfloat16", CHUNK_A_LAYER]
    states = run(load_scenario("lesson-zero3", words)).meta.states[0]
    assert states.gradients == 0
    assert states.parameters + states.optimizer == 14 * 3 * LAYER // 8


def test_a_gathered_chunk_is_whole_with_the_shard_it_grew_from() -> None:
    made = plan(CHUNK_A_LAYER, "world_size=8")
    grown = {a.nbytes for op in made.ops for a in op.allocates if a.kind == "gathered"}
    assert grown == {LAYER * 4 * 7 // 8}


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("placement_policy=auto", "auto goes by the memory it measures, which is not modelled"),
        ("shard_param_frac=2", r"shard_param_frac is 2\.0: give a share from 0 to 1"),
        ("chunk_size=0", "chunk_size is 0: give at least 1"),
        ("max_prefetch=-1", "max_prefetch is -1: give 0 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(word: str, sentence: str) -> None:
    with pytest.raises(ScenarioError, match=sentence):
        plan(word)
