"""Gradients clipped by their norm before the update, where the numerics ask for it."""

from __future__ import annotations

import pytest

from zerosim.plan import Plan
from zerosim.scenario import load_scenario, plan_of

SHARDED = ["fsdp1", "fsdp2", "zero1", "zero2", "zero3"]


def plan(schedule: str, *words: str) -> Plan:
    changes = [f"schedule={schedule}", "layers=2", "hidden=4", "world_size=2", "clipping=true"]
    return plan_of(load_scenario("lesson-zero3", [*changes, *words]))


@pytest.mark.parametrize("schedule", SHARDED)
def test_shards_are_normed_by_an_all_reduce_of_one_number(schedule: str) -> None:
    names = [op.name for op in plan(schedule).ops]
    norm, reduced, clip, opt = (names.index(name) for name in ("norm", "ARnorm", "clip", "OPT"))
    assert (reduced, clip, opt) == (norm + 1, norm + 2, norm + 3)


@pytest.mark.parametrize("schedule", ["ddp", "zero-redundancy"])
def test_whole_gradients_are_normed_alone(schedule: str) -> None:
    names = [op.name for op in plan(schedule).ops]
    norm = names.index("norm")
    assert names[norm : norm + 3] == ["norm", "clip", "OPT"]


def test_gradients_are_read_for_the_norm_and_read_and_written_to_clip() -> None:
    ops = {op.name: op for op in plan("zero3").ops}
    # 2 layers of 20 float32 parameters, half of them here.
    assert (ops["norm"].memory_bytes, ops["clip"].memory_bytes) == (20 * 4, 2 * 20 * 4)


def test_groups_that_shard_are_those_that_norm() -> None:
    made = plan("fsdp2", "world_size=4", "shard_mesh_size=2")
    (reduced,) = (op for op in made.ops if op.name == "ARnorm")
    assert reduced.group == "shard"


def test_nothing_is_clipped_unless_asked() -> None:
    names = {op.name for op in plan("fsdp2", "clipping=false").ops}
    assert not names & {"norm", "ARnorm", "clip"}
