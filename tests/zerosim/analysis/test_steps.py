"""One step of a run, cut out of it: its spans, and its samples from where they stood at its begin on."""

from __future__ import annotations

import polars as pl

from zerosim.analysis.steps import only_step
from zerosim.analysis.summary import summarize
from zerosim.scenario import load_scenario, run

DDP = run(load_scenario("lesson-zero3", ["schedule=ddp", "steps=3"]))


def test_it_has_the_spans_of_its_step_only() -> None:
    part = only_step(DDP, 2)
    assert part.spans["step"].unique().to_list() == [2]
    assert {window.step for window in part.meta.steps} == {2}
    assert part.spans.height == DDP.spans.filter(pl.col("step") == 2).height


def test_what_is_held_throughout_stands_at_its_begin() -> None:
    part = only_step(DDP, 2)
    first = part.samples.filter(
        (pl.col("rank") == 0)
        & (pl.col("time_ns") == part.begin_ns)
        & (pl.col("counter").cast(pl.String) == "memory.optimizer")
    )
    assert first["value"].to_list() == [14_174_208]


def test_nothing_is_sampled_before_or_after_it() -> None:
    part = only_step(DDP, 2)
    times = part.samples["time_ns"]
    assert times.min() == part.begin_ns
    assert max(times) <= max(part.spans["end_ns"])


def test_its_order_is_that_of_the_step() -> None:
    assert summarize(only_step(DDP, 1))["order"] == (
        "F0 F1 F2 B2 B1 B0 AR2-0 OPT BCbuckets BCbuckets"
    )
    assert summarize(only_step(DDP, 2))["order"] == "F0 F1 F2 B2 AR2 B1 B0 AR1-0 OPT"


def test_a_step_that_never_was_is_empty() -> None:
    part = only_step(DDP, 9)
    assert part.spans.is_empty()
    assert part.samples.is_empty()
