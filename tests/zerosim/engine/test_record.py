"""Recording: classes of equal ranks, states, bucket fills and link rates of a simulated run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from zerosim.analysis.summary import summarize
from zerosim.engine import ENGINES, simulate
from zerosim.errors import UnknownNameError
from zerosim.hardware import MACHINES
from zerosim.kinds import Kind
from zerosim.plan import Axis, Plan, PlanWriter
from zerosim.scenario import Scenario, load_scenario, run
from zerosim.trace import StateBytes, Trace, expand

SECOND = 10**9
Unit = Callable[..., dict[str, Any]]


def counter(trace: Trace, name: str) -> list[tuple[int, int]]:
    """(seconds, value) of a counter on rank 0, the last of each moment."""
    mine = trace.samples.filter((pl.col("rank") == 0) & (pl.col("counter").cast(pl.String) == name))
    last = mine.group_by("time_ns", maintain_order=True).last()
    return [(t // SECOND, value) for t, value in last.select("time_ns", "value").rows()]


def test_a_small_run_has_rows_of_every_rank() -> None:
    trace = run(load_scenario("lesson-zero3"))
    assert trace.ranks == (0, 1, 2)
    assert {w.rank for w in trace.meta.steps} == {0, 1, 2}


def test_a_big_run_has_rows_of_one_rank_a_class() -> None:
    trace = run(load_scenario("gpt-1t", ["stragglers=5:1.1"]))
    assert trace.ranks == (0, 5)
    members = [c.members for c in trace.meta.classes]
    assert members == [((0, 4), (6, 1023)), ((5, 5),)]
    assert expand(trace, (1000,)).spans.height == trace.spans.height // 2


def test_states_are_what_a_rank_owns(unit: Unit) -> None:
    # 18 float32 parameters on 2 ranks, SGD: no optimizer states.
    owned = {
        schedule: run(Scenario.from_dict(unit(schedule))).meta.states[0]
        for schedule in ("ddp", "zero1", "zero2", "zero3")
    }
    assert owned == {
        "ddp": StateBytes(0, 72, 72, 0),
        "zero1": StateBytes(0, 72, 108, 0),  # whole gradients, and the reduced shard beside them
        "zero2": StateBytes(0, 72, 36, 0),
        "zero3": StateBytes(0, 36, 36, 0),
    }


def test_a_bucket_fills_and_empties_when_its_reduction_starts(unit: Unit) -> None:
    trace = run(Scenario.from_dict(unit("zero2", bucket_bytes=48)))
    # Layers of 24 bytes: full after two of them, at 56 s; the last one alone from 72 s on.
    assert counter(trace, "bucket.fill") == [(40, 24), (56, 0), (72, 24), (80, 0)]


def test_links_carry_their_mean_rate_while_a_transfer_runs(unit: Unit) -> None:
    trace = run(Scenario.from_dict(unit("zero2")))
    rates = counter(trace, "link.nvswitch")
    assert rates[:2] == [(40, 1), (52, 0)]
    assert {value for _, value in rates} == {0, 1}


def test_a_rank_alone_puts_nothing_on_a_link(unit: Unit) -> None:
    record = unit("zero3")
    record["cluster"]["world_size"] = 1
    assert counter(run(Scenario.from_dict(record)), "link.nvswitch") == []


def test_collectives_carry_their_size_and_what_they_sent(unit: Unit) -> None:
    spans = run(Scenario.from_dict(unit("zero3"))).spans.filter(pl.col("rank") == 0)
    gather = spans.row(0, named=True)
    assert (gather["elements"], gather["nbytes"], gather["wire_bytes"]) == (6, 24, 12)
    assert (gather["group"], gather["dtype"], gather["unit"]) == ("world", "float32", "0")
    forward = spans.row(1, named=True)
    assert forward["wire_bytes"] is None
    assert forward["collective"] is None


def test_a_step_lasts_from_its_first_issue_to_its_last_end(unit: Unit) -> None:
    record = unit("zero3") | {"run": {"steps": 2}}
    windows = run(Scenario.from_dict(record)).meta.steps
    assert [(w.rank, w.step, w.start_ns // SECOND, w.end_ns // SECOND) for w in windows] == [
        (0, 1, 0, 224),
        (0, 2, 224, 448),  # the host has waited for the end of the first
        (1, 1, 0, 224),
        (1, 2, 224, 448),
    ]


def test_a_plan_that_holds_and_sends_nothing_has_no_samples() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", flops=50)
    plan = Plan("p", 2, tuple(writer.ops), (Axis("world", 2),))
    trace = simulate(plan, MACHINES["classroom"].cluster(2, "float32"))
    assert trace.spans["end_ns"].to_list() == [1, 1]
    assert trace.samples.height == 0


def test_link_rates_begin_with_the_last_arrival(unit: Unit) -> None:
    trace = run(Scenario.from_dict(unit("ddp", bucket_bytes=72) | {"run": {"stragglers": "1:2"}}))
    # Rank 0 is there after 72 s of computing and 144 s of filling its bucket, rank 1 after twice as
    # long; 72 bytes at 1 B/s.
    assert counter(trace, "link.nvswitch") == [(432, 1), (504, 0)]


def test_an_unknown_engine_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="no engine 'maxpluss': did you mean 'maxplus'"):
        run(load_scenario("lesson-zero3", ["engine=maxpluss"]))


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_engine_gives_the_lesson_the_same_times(engine: str) -> None:
    spans = run(load_scenario("lesson-zero3", [f"engine={engine}"])).spans
    assert spans.equals(run(load_scenario("lesson-zero3")).spans)


def test_a_caching_allocator_is_followed_if_asked(unit: Unit) -> None:
    record = unit("zero3")
    assert counter(run(Scenario.from_dict(record)), "memory.reserved") == []
    record["run"] = {"allocator": "caching"}
    trace = run(Scenario.from_dict(record))
    # The host costs nothing and issues all at 0. Parameters, activations and gradients share a segment
    # of 2 MiB; the streams of the all-gathers and of the reduce-scatters have one each.
    assert counter(trace, "memory.reserved") == [(0, 6 * 2**20)]
    assert summarize(trace)["peak_reserved_bytes"] == 6 * 2**20


def test_an_unknown_allocator_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="no allocator 'cacheing': did you mean 'caching'"):
        run(load_scenario("lesson-zero3", ["allocator=cacheing"]))


def test_groups_of_one_shape_have_collectives_of_their_own() -> None:
    words = ["schedule=fsdp2", "shard_mesh_size=2", "world_size=4", "layers=1"]
    spans = run(load_scenario("lesson-zero3", words)).spans
    named = pl.col("name").cast(pl.String)
    gathered = spans.filter(named == "AG0").group_by("rank", maintain_order=True).first()
    first, second, third, fourth = gathered["collective"].to_list()
    assert (first, third) == (second, fourth)
    assert first != third
    first, second, third, fourth = spans.filter(named == "AR0")["collective"].to_list()
    assert (first, second) == (third, fourth)
    assert first != second
