"""What real ranks did is what the simulator says: order, sizes, wire bytes, memory, causes and effects."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tests.runtime.cases import Case, bitwise_cases, close_cases
from tests.runtime.conftest import Ranks
from zerosim.kinds import MEMORY_KINDS
from zerosim.plan import Plan
from zerosim.scenario import Scenario, plan_of, run
from zerosim.trace import Trace
from zerosim_runtime.merge import merge
from zerosim_runtime.records import read_record

pytestmark = pytest.mark.runtime
Launch = Callable[[int], Ranks]
EVERY = [*((2, case) for case in bitwise_cases(2)), *((4, case) for case in close_cases(4))]
CASES = [pytest.param(n_ranks, case, id=f"{n_ranks}-{case.name}") for n_ranks, case in EVERY]
LOGICAL = [
    "kind",
    "name",
    "unit",
    "stream",
    "group",
    "elements",
    "nbytes",
    "wire_bytes",
    "dtype",
    "bucket",
    "micro_batch",
]
STEADY = 2


@cache
def _merged(directory: Path) -> Trace:
    return merge(directory)


@cache
def _simulated(name: str, n_ranks: int) -> Trace:
    case = next(c for n, c in EVERY if n == n_ranks and c.name == name)
    return run(Scenario.from_dict(case.scenario))


def _real(ranks: Launch, n_ranks: int, case: Case) -> Trace:
    return _merged(ranks(n_ranks).directory / case.name)


def _steady(trace: Trace, rank: int) -> pl.DataFrame:
    return trace.spans.filter((pl.col("rank") == rank) & (pl.col("step") == STEADY))


def _order(trace: Trace, rank: int) -> str:
    shown = ~pl.col("kind").is_in(["fill", "copy"])
    return " ".join(_steady(trace, rank).filter(shown)["name"].to_list())


@pytest.mark.parametrize(("n_ranks", "case"), CASES)
def test_every_op_is_the_simulated_one(ranks: Launch, n_ranks: int, case: Case) -> None:
    real, simulated = _real(ranks, n_ranks, case), _simulated(case.name, n_ranks)
    expected = _steady(simulated, 0).select(LOGICAL).cast(pl.String)
    assert expected.height > 10
    for rank in range(n_ranks):
        assert _steady(real, rank).select(LOGICAL).cast(pl.String).equals(expected)


def test_the_lesson_is_followed_to_the_letter(ranks: Launch) -> None:
    real = _merged(ranks(2).directory / "zero3-uniform-float32-adamw-1-right")
    expected = "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"
    assert [_order(real, rank) for rank in (0, 1)] == [expected, expected]


def test_prefetch_gathers_one_layer_ahead_and_keeps_none(ranks: Launch) -> None:
    real = _merged(ranks(2).directory / "zero3-wide-uniform-float32-adamw-1-right")
    expected = "AG0 AG1 F0 AG2 F1 F2 AG2 AG1 B2 AG0 B1 RS2-1 B0 RS0 OPT"
    assert _order(real, 1) == expected


def test_zero1_gathers_all_parameters_after_the_update(ranks: Launch) -> None:
    real = _merged(ranks(2).directory / "zero1-gpt-float32-adamw-1-right")
    expected = "Femb F0 F1 Fhead loss dloss Bhead B1 RS1 B0 RS0 Bemb RSroot OPT AGroot AG0 AG1"
    assert _order(real, 0) == expected


@pytest.mark.parametrize(("n_ranks", "case"), CASES)
def test_no_collective_ends_before_its_last_rank_has_come(
    ranks: Launch, n_ranks: int, case: Case
) -> None:
    real = _real(ranks, n_ranks, case)
    tied = (
        real.spans.filter(pl.col("collective").is_not_null())
        .group_by("collective")
        .agg(
            pl.len().alias("members"),
            pl.col("name").n_unique().alias("names"),
            pl.col("kind").first().cast(pl.String),
            (pl.col("end_ns").min() - pl.col("issued_ns").max()).alias("slack"),
        )
    )
    assert tied["members"].unique().to_list() == [n_ranks]
    assert tied["names"].unique().to_list() == [1]
    # Who sends a broadcast need not wait for those who receive.
    assert min(tied.filter(pl.col("kind") != "broadcast")["slack"].to_list()) >= 0
    assert real.meta.quality.warnings == ()


@pytest.mark.parametrize(("n_ranks", "case"), CASES)
def test_collectives_of_one_communicator_run_one_at_a_time(
    ranks: Launch, n_ranks: int, case: Case
) -> None:
    real = _real(ranks, n_ranks, case)
    plan = plan_of(Scenario.from_dict(case.scenario))
    for name in {op.communicator for op in plan.ops if op.communicator is not None}:
        of_name = {op.name for op in plan.ops if op.communicator == name}
        one = real.spans.filter(
            (pl.col("rank") == 0) & pl.col("name").cast(pl.String).is_in(of_name)
        )
        assert (one["start_ns"] >= one["end_ns"].shift(1).fill_null(0)).all()
    assert (real.spans["issued_ns"] <= real.spans["start_ns"]).all()


@pytest.mark.parametrize(("n_ranks", "case"), CASES)
def test_memory_comes_and_goes_as_planned(ranks: Launch, n_ranks: int, case: Case) -> None:
    plan = plan_of(Scenario.from_dict(case.scenario))
    record = read_record(ranks(n_ranks).directory / case.name, n_ranks - 1)
    assert record is not None
    for kind in MEMORY_KINDS:
        done = [change.nbytes for change in record.changes if change.kind == kind]
        assert done == _planned(plan, kind), kind


def _planned(plan: Plan, kind: str) -> list[int]:
    changes = [a.nbytes for a in plan.persistent if a.kind == kind]
    live: dict[str, int] = {}
    for op in plan.ops:
        made = {a.key: a.nbytes for a in op.allocates if a.kind == kind}
        live.update(made)
        changes += made.values()
        changes += [-live.pop(key) for key in op.frees if key in live]
    return changes


def test_of_the_scores_of_a_transformer_autograd_keeps_the_log_softmax(ranks: Launch) -> None:
    directory = ranks(2).directory / "zero3-gpt-float32-adamw-1-right"
    record = read_record(directory, 0)
    assert record is not None
    # 10 tokens x 37 words x 4 bytes: scores, which go with the loss, log_softmax (and the number of
    # tokens, 4 bytes more), which goes with their gradient, which goes with the head's backward.
    first = [c.nbytes for c in record.changes if c.kind == "logits"][:6]
    assert first == [1480, 1484, -1480, 1480, -1484, -1480]


def test_a_measured_run_says_what_it_ran_on(ranks: Launch) -> None:
    meta = _merged(ranks(2).directory / "zero3-uniform-float32-adamw-1-right").meta
    assert (meta.source, meta.engine, meta.world_size, meta.finished) == (
        "measured",
        "gloo",
        2,
        True,
    )
    assert meta.scenario is not None
    assert meta.scenario["cluster"] == {"name": "cpu-gloo", "world_size": 2}
    assert (meta.clock.aligned, meta.clock.error_ns) == (True, 0)
    assert [(g.name, g.size, g.ranks) for g in meta.groups] == [("world", 2, (0, 1))]
    assert {(w.rank, w.step) for w in meta.steps} == {(r, s) for r in (0, 1) for s in range(1, 21)}
    # 3 layers of 21 x 21 + 21 elements in rows of 221 + 11, in float32 with two moments
    assert [(s.parameters, s.gradients, s.optimizer) for s in meta.states] == [
        (2784, 2784, 5568)
    ] * 2


def test_a_bucket_fills_and_is_emptied(ranks: Launch) -> None:
    real = _merged(ranks(2).directory / "zero1-buckets-uniform-float32-adamw-1-right")
    of_rank = (pl.col("rank") == 0) & (pl.col("counter") == "bucket.fill")
    filled = real.samples.filter(of_rank)["value"].to_list()
    # Rows of 221 + 11 elements, two ranks, 4 bytes: a unit is 1,856 B, two pass the cap of 3,000 B.
    assert sorted(set(filled)) == [0, 1856, 3712]
    assert filled[-1] == 0


def test_allocated_memory_is_back_at_its_base_after_the_last_step(ranks: Launch) -> None:
    real = _merged(ranks(2).directory / "zero3-gpt-float32-adamw-1-right")
    last = real.samples.group_by("rank", "counter").agg(pl.col("value").last())
    values = {(row["rank"], str(row["counter"])): row["value"] for row in last.to_dicts()}
    held = values[0, "memory.parameters"] + values[0, "memory.optimizer"]
    assert values[0, "memory.allocated"] == held
    assert values[0, "memory.gathered"] == values[0, "memory.workspace"] == 0
