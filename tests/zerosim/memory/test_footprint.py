"""The peak of a plan: what stands at it, by kind, where, and that the simulated trace agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from zerosim.kinds import Kind
from zerosim.memory.footprint import footprints, heaviest
from zerosim.plan import Allocation, Axis, Plan, PlanWriter, uneven
from zerosim.scenario import Scenario, load_scenario, plan_of, run

Unit = Callable[..., dict[str, Any]]


def taken(key: str, kind: str, nbytes: int) -> tuple[Allocation, ...]:
    return (Allocation(key, kind, nbytes),)


def test_an_op_takes_its_memory_before_it_drops_what_it_used() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", allocates=taken("a", "activations", 5))
    writer.compute(Kind.BACKWARD, "0", allocates=taken("g", "gradients", 7), frees=("a",))
    writer.compute(Kind.OPTIMIZER, "", frees=("g",))
    held = (Allocation("parameters", "parameters", 3), Allocation("optimizer", "optimizer", 2))
    most = heaviest(Plan("p", 1, tuple(writer.ops), (Axis("world", 1),), held))
    assert most.peak_bytes == 3 + 2 + 5 + 7
    assert {kind: n for kind, n in most.by_kind.items() if n} == {
        "parameters": 3,
        "gradients": 7,
        "optimizer": 2,
        "activations": 5,
    }
    assert (most.op, most.step) == ("B0", 1)
    assert most.states == {"parameters": 3, "gradients": 7, "optimizer": 2}
    assert most.states_bytes == 12


def test_a_plan_that_only_holds_peaks_at_no_op() -> None:
    held = (Allocation("parameters", "parameters", 3),)
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0")
    most = heaviest(Plan("p", 1, tuple(writer.ops), (Axis("world", 1),), held))
    assert (most.peak_bytes, most.op, most.step) == (3, None, None)


def test_the_unit_cluster_by_hand(unit: Unit) -> None:
    # 3 layers of 24 bytes on 2 ranks, SGD, one activation of 2 floats a layer.
    most = heaviest(plan_of(Scenario.from_dict(unit("zero3"))))
    # Held 36; at B1: A of two layers 16, two gathered 48, its gradients 24, a shard of layer 2 12,
    # and the bucket of layer 2 is gone.
    assert sum(most.by_kind.values()) == most.peak_bytes
    assert most.states == {"parameters": 36, "gradients": 36, "optimizer": 0}


@pytest.mark.parametrize(
    ("words", "gradients"),
    [
        (["schedule=megatron", "dtype=bfloat16"], 3 * 768 * 769 * 4),  # a buffer held throughout
        (["schedule=ddp", "gradient_as_bucket_view=true"], 3 * 768 * 769 * 4),
        (["schedule=deepspeed-3", "dtype=bfloat16"], 768 * 769 * 2),  # without the step's flat copy
    ],
)
def test_gradients_that_are_held_throughout_are_owned(words: list[str], gradients: int) -> None:
    scenario = load_scenario("lesson-zero3", words)
    assert heaviest(plan_of(scenario)).states["gradients"] == gradients
    assert run(scenario).meta.states[0].gradients == gradients


@pytest.mark.parametrize("schedule", ["ddp", "zero1", "zero2", "zero3"])
def test_the_simulated_trace_has_the_same_peak_and_states(schedule: str, unit: Unit) -> None:
    scenario = Scenario.from_dict(unit(schedule))
    trace, most = run(scenario), heaviest(plan_of(scenario))
    allocated = trace.samples.filter(pl.col("counter").cast(pl.String) == "memory.allocated")
    assert allocated["value"].max() == most.peak_bytes
    owned = trace.meta.states[0]
    assert most.states == {
        "parameters": owned.parameters,
        "gradients": owned.gradients,
        "optimizer": owned.optimizer,
    }


def test_ranks_that_differ_have_entries_of_their_own() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", allocates=(uneven("a", "activations", [4, 4, 9]),))
    held = uneven("optimizer", "optimizer", [5, 0, 0])
    every = footprints(Plan("p", 3, tuple(writer.ops), (Axis("world", 3),), (held,)))
    assert [(f.first, f.last, f.peak_bytes) for f in every] == [(0, 0, 9), (1, 1, 4), (2, 2, 9)]
    assert [f.states["optimizer"] for f in every] == [5, 0, 0]
    assert every[2].by_kind["activations"] == 9


def test_the_heaviest_ranks_are_found_among_those_that_differ() -> None:
    for words in (["schedule=colossalai-2-old"], ["schedule=colossalai-1"], ["schedule=zero3"]):
        plan = plan_of(load_scenario("gpt2-1.5b", [*words, "layers=6", "world_size=40"]))
        every = footprints(plan)
        assert heaviest(plan) == max(every, key=lambda f: f.peak_bytes)


def test_many_ranks_that_differ_are_followed_in_turns() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0")
    held = uneven("optimizer", "optimizer", [*range(200)])
    every = footprints(Plan("p", 200, tuple(writer.ops), (Axis("world", 200),), (held,)))
    assert [f.peak_bytes for f in every] == [*range(200)]


def test_equal_ranks_are_one_entry() -> None:
    plan = plan_of(load_scenario("lesson-zero3"))
    assert [(f.first, f.last) for f in footprints(plan)] == [(0, 2)]
