"""Updates of all parameters at once: a temporary as large as what a rank updates."""

from __future__ import annotations

import pytest

from zerosim.memory.footprint import heaviest
from zerosim.plan import Plan
from zerosim.scenario import load_scenario, plan_of

LAYER = 768 * 768 + 768


def plan(*words: str) -> Plan:
    return plan_of(load_scenario("lesson-zero3", ["dtype=float32", *words]))


def temporaries(found: Plan, rank: int = 0) -> list[int]:
    return [a.at(rank) for op in found.ops for a in op.allocates if op.name.startswith("OPT")]


@pytest.mark.parametrize(("schedule", "share"), [("ddp", 1), ("zero1", 3), ("zero3", 3)])
def test_an_update_holds_a_float32_for_each_parameter_that_the_rank_updates(
    schedule: str, share: int
) -> None:
    assert temporaries(plan(f"schedule={schedule}", "foreach=true")) == [4 * 3 * LAYER // share]


def test_without_it_an_update_holds_nothing() -> None:
    assert temporaries(plan()) == []


def test_sgd_needs_no_temporary() -> None:
    assert temporaries(plan("optimizer=momentum", "foreach=true")) == []


def test_it_is_gone_after_the_update() -> None:
    found = plan("foreach=true", "steps=2")
    opt = next(op for op in found.ops if op.name == "OPT")
    assert opt.allocates[0].key in opt.frees


def test_ranks_that_own_more_rows_hold_more() -> None:
    # Three rows over two ranks are two and one.
    found = plan("schedule=fsdp2", "hidden=3", "world_size=2", "foreach=true")
    # Rank 0 owns 2 of 3 rows of a 3 x 3 weight and of its bias, in each of three layers.
    assert temporaries(found, rank=0) == [4 * 3 * (2 * 3 + 2)]
    assert temporaries(found, rank=1) == [4 * 3 * (1 * 3 + 1)]


def test_the_parts_of_an_update_share_the_temporary() -> None:
    found = plan("schedule=deepspeed-3", "sub_group_size=1", "foreach=true", "dtype=bfloat16")
    parts = temporaries(found)
    assert len(parts) == 6
    assert sum(parts) == 4 * LAYER


def test_the_peak_is_in_the_update_where_little_else_is_held() -> None:
    words = ("schedule=ddp", "micro_batch=1", "foreach=true")
    most = heaviest(plan(*words))
    # Parameters, gradients as buckets and their own, two moments, and the temporary: 6 float32.
    assert (most.op, most.peak_bytes) == ("OPT", 6 * 4 * 3 * LAYER)
