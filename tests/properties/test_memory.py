"""Rules of memory that every schedule keeps: plan and trace agree, kinds sum up, no less is reserved."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.scenarios import EVERY_SCHEDULE, FEW, records
from zerosim.memory.footprint import footprints, heaviest
from zerosim.memory.reserved import reserved
from zerosim.scenario import Scenario, moments_of, plan_of, run
from zerosim.trace import Trace


def peaks(trace: Trace, counter: str) -> dict[int, int]:
    rows = trace.samples.filter(pl.col("counter").cast(pl.String) == counter)
    return dict(rows.group_by("rank").agg(pl.col("value").max()).iter_rows())


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_the_peak_of_the_plan_is_that_of_the_trace(schedule: str, data: st.DataObject) -> None:
    scenario = Scenario.from_dict(data.draw(records(schedule)))
    plan = plan_of(scenario)
    allocated = peaks(run(scenario), "memory.allocated")
    every = footprints(plan)
    assert [f.first for f in every[1:]] == [f.last + 1 for f in every[:-1]]
    assert (every[0].first, every[-1].last) == (0, plan.world_size - 1)
    for footprint in every:
        assert sum(footprint.by_kind.values()) == footprint.peak_bytes
        for rank in range(footprint.first, footprint.last + 1):
            assert allocated.get(rank, 0) == footprint.peak_bytes
    assert heaviest(plan).peak_bytes == max(f.peak_bytes for f in every)


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_what_is_reserved_holds_what_is_allocated(schedule: str, data: st.DataObject) -> None:
    scenario = Scenario.from_dict(data.draw(records(schedule)))
    scenario = replace(scenario, run=replace(scenario.run, allocator="caching"))
    plan, sampled = plan_of(scenario), peaks(run(scenario), "memory.reserved")
    for footprint in footprints(plan):
        rank = footprint.first
        held = reserved(plan, rank, moments=moments_of(scenario, plan, rank))
        assert sampled.get(rank, 0) == held.peak_bytes >= footprint.peak_bytes
