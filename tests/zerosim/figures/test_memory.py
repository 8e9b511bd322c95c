"""Memory over time: kinds stacked, the peak marked and never lost, null where there is nothing."""

from __future__ import annotations

import polars as pl

from zerosim.figures.memory import MAX_POINTS, memory
from zerosim.trace import Meta, Trace, make_trace

MS = 1_000_000


def test_kinds_are_stacked_in_the_order_of_the_palette(two: Trace) -> None:
    figure = memory(two, 0, "light").figure
    assert [trace.name for trace in figure.data] == [
        "parameters",
        "gathered parameters",
        "activations",
    ]
    assert {trace.stackgroup for trace in figure.data} == {"memory"}
    assert list(figure.data[2].y) == [0.0, 1.0, 1.0, 0.0]
    assert list(figure.data[0].x) == [0.0, 10.0, 30.0, 70.0]
    assert figure.data[0].line.shape == "hv"


def test_the_peak_is_marked_and_said(two: Trace) -> None:
    drawn = memory(two, 0, "dark")
    assert drawn.sentence == (
        "Rank 0 peaks at 7 kB after 10 ms: "
        "gathered parameters 4 kB, parameters 2 kB, activations 1 kB."
    )
    peak = drawn.figure.layout.annotations[0]
    assert (peak.x, peak.y, peak.text) == (10.0, 7.0, "peak 7 kB")


def test_hover_tells_bytes(two: Trace) -> None:
    assert list(memory(two, 0, "light").figure.data[0].customdata) == ["2 kB"] * 4


def test_a_rank_without_samples_is_drawn_as_nothing(two: Trace, silent: Trace) -> None:
    assert memory(two, 1, "light").sentence == "This run has no memory samples of rank 1."
    assert len(memory(silent, 0, "light").figure.data) == 0


def total(values: list[int], counter: str = "memory.allocated") -> Trace:
    n = len(values)
    spans = {"rank": [0], "kind": ["forward"], "stream": ["compute"], "name": ["F0"],
             "start_ns": [0], "end_ns": [n]}  # fmt: skip
    samples = {
        "time_ns": list(range(n)),
        "rank": [0] * n,
        "counter": [counter] * n,
        "value": values,
    }
    return make_trace(spans, Meta("total", "imported", None), samples)


def test_a_run_without_kinds_shows_its_total() -> None:
    drawn = memory(total([10, 30, 20]), 0, "light")
    assert [trace.name for trace in drawn.figure.data] == ["allocated"]
    assert drawn.sentence == "Rank 0 peaks at 30 B after 1 ns."


def test_what_is_reserved_is_a_line_above_the_kinds(two: Trace) -> None:
    more = {
        "time_ns": [0, 10 * MS],
        "rank": [0, 0],
        "counter": ["memory.reserved"] * 2,
        "value": [6000, 9000],
    }
    samples = pl.concat([two.samples, make_trace(two.spans, two.meta, more).samples])
    drawn = memory(Trace(two.spans, samples, two.meta), 0, "light")
    line = drawn.figure.data[-1]
    assert (line.name, line.stackgroup, list(line.y)) == ("reserved", None, [6.0, 9.0, 9.0, 9.0])
    assert drawn.figure.layout.yaxis.range[1] > 9.0
    assert drawn.figure.layout.annotations[0].text == "peak 7 kB"
    assert drawn.sentence.endswith("At most 9 kB are reserved.")


def test_a_run_that_knows_only_what_is_reserved_shows_that_alone() -> None:
    drawn = memory(total([10, 30, 20], "memory.reserved"), 0, "light")
    assert [trace.name for trace in drawn.figure.data] == ["reserved"]
    assert drawn.sentence == "Rank 0 peaks at 30 B after 1 ns."


def test_long_runs_are_thinned_without_losing_their_peak() -> None:
    values = [1] * 50_000
    values[31_337] = 99
    figure = memory(total(values), 0, "light").figure
    assert len(figure.data[0].y) <= MAX_POINTS + 2
    assert max(figure.data[0].y) == 99.0
    assert figure.data[0].x[list(figure.data[0].y).index(99.0)] == 31.337


def test_counters_that_are_no_memory_are_left_out(two: Trace) -> None:
    link = {"time_ns": [0], "rank": [0], "counter": ["link.nvswitch"], "value": [10**12]}
    more = pl.concat([two.samples, make_trace(two.spans, two.meta, link).samples])
    drawn = memory(Trace(two.spans, more, two.meta), 0, "light")
    assert drawn.sentence.startswith("Rank 0 peaks at 7 kB")
