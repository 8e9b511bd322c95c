"""Plans whose ranks differ: each takes its own memory and time, and equal ones still fold."""

from __future__ import annotations

import polars as pl
import pytest

from zerosim.cluster import Cluster
from zerosim.engine import simulate
from zerosim.errors import PlanError
from zerosim.hardware import MACHINES
from zerosim.kinds import Kind
from zerosim.plan import Axis, Plan, PlanWriter, at_rank, spread, uneven


def uneven_plan(writer: PlanWriter | None = None) -> Plan:
    writer = writer or PlanWriter()
    gradients = uneven("g", "gradients", [8, 8, 2, 0])
    filled = writer.compute(Kind.FILL, "", allocates=(gradients,))
    update = writer.compute(
        Kind.OPTIMIZER,
        "",
        after=(filled,),
        memory_bytes=100_000,
        memory_bytes_by_rank=spread([100_000, 100_000, 50_000, 0]),
        frees=("g",),
    )
    writer.collective(Kind.BROADCAST, "0", elements=6, dtype="float32", after=(update,))
    held = (uneven("optimizer", "optimizer", [40, 40, 10, 0]),)
    return Plan("uneven", 4, tuple(writer.ops), (Axis("world", 4),), held)


def cluster() -> Cluster:
    return MACHINES["classroom"].cluster(4, "float32")


def test_runs_of_equal_values_are_written_once() -> None:
    assert spread([7, 7, 1]) == ((2, 7), (1, 1))
    assert [at_rank(((2, 7), (1, 1)), r) for r in range(3)] == [7, 7, 1]
    with pytest.raises(PlanError, match="values for 3 ranks lack one"):
        at_rank(((2, 7), (1, 1)), 3)


def test_ranks_that_own_as_much_are_one_class_and_the_others_are_not() -> None:
    trace = simulate(uneven_plan(), cluster())
    assert [c.ranks for c in trace.meta.classes] == [(0, 1), (2,), (3,)]


def test_each_rank_has_its_own_states() -> None:
    states = simulate(uneven_plan(), cluster()).meta.states
    assert [s.optimizer for s in states] == [40, 40, 10, 0]
    assert [s.gradients for s in states] == [8, 8, 2, 0]


@pytest.mark.parametrize("engine", ["maxplus", "simpy", "unfolded"])
def test_the_rank_with_the_most_to_update_holds_up_the_others(engine: str) -> None:
    spans = simulate(uneven_plan(), cluster(), engine=engine).spans
    update = spans.filter(pl.col("name") == "OPT")
    took = (update["end_ns"] - update["start_ns"]).to_list()
    assert took[0] == took[1] > took[2] > took[3] == 0
    moved = spans.filter(pl.col("name") == "BC0")
    assert moved["end_ns"].n_unique() == 1
    assert max(moved["start_ns"].to_list()) == max(update["end_ns"].to_list())


def test_each_rank_counts_its_own_memory() -> None:
    samples = simulate(uneven_plan(), cluster()).samples
    peaks = (
        samples.filter(pl.col("counter").cast(pl.String) == "memory.allocated")
        .group_by("rank")
        .agg(pl.col("value").max())
        .sort("rank")
    )
    assert peaks["value"].to_list()[:3] == [48, 48, 12]


def test_values_for_too_few_ranks_are_refused() -> None:
    writer = PlanWriter()
    writer.compute(Kind.OPTIMIZER, "", memory_bytes=9, memory_bytes_by_rank=spread([9, 1]))
    with pytest.raises(PlanError, match="gives values of 2 ranks: there are 4"):
        uneven_plan(writer)


def test_the_host_waits_where_it_is_told_to() -> None:
    writer = PlanWriter()
    first = writer.compute(Kind.FORWARD, "0", flops=10**9)
    writer.wait((first,), "0")
    writer.compute(Kind.FORWARD, "1", flops=10**9)
    spans = simulate(Plan("waits", 1, tuple(writer.ops), ()), cluster()).spans
    ends, issued = spans["end_ns"].to_list(), spans["issued_ns"].to_list()
    assert issued[2] == ends[1] == ends[0]
