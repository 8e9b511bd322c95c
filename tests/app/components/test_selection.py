"""The selection in words: a kernel's facts, a collective's partners, an area's sums."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.scenario import load_scenario, run
from zerosim.trace import Trace
from zerosim_app.components import selection


@pytest.fixture(name="trace", scope="module")
def _trace() -> Trace:
    return run(load_scenario("lesson-zero3", ["run.stragglers=2:1.5"]))


def row_of(trace: Trace, name: str, rank: int) -> int:
    names, ranks = trace.spans["name"].cast(str).to_list(), trace.spans["rank"].to_list()
    return next(i for i, key in enumerate(zip(names, ranks, strict=True)) if key == (name, rank))


def facts(tree: Any, parts: Any) -> dict[str, str]:
    (grid,) = tree(parts).named("zs-facts")
    return {pair.children[0].children: pair.children[1].children for pair in grid.children}


def test_a_kernel_has_times_and_no_sizes(trace: Trace, tree: Any) -> None:
    told = facts(tree, selection.span(trace, row_of(trace, "F1", 0)))
    assert told["Took"] == "1.51 ms"
    assert told["Layer"] == "1"
    assert "Full tensor" not in told
    assert "Waited" not in told


def test_a_collective_has_sizes_and_how_long_it_waited(trace: Trace, tree: Any) -> None:
    told = facts(tree, selection.span(trace, row_of(trace, "RS2", 0)))
    assert told["Full tensor"] == "2.36 MB"
    assert told["Sent by this rank"] == "1.57 MB"
    assert told["Group"] == "world"
    assert told["Waited"] not in ("0 ns", "unknown")


def test_the_straggler_does_not_wait_in_the_list_of_partners(trace: Trace, tree: Any) -> None:
    parts = tree(selection.span(trace, row_of(trace, "RS2", 0)))
    rows = parts.by_id("sel-members").rowData
    assert [row["rank"] for row in rows] == [0, 1, 2]
    assert rows[2]["waited_ns"] == 0
    assert rows[0]["waited_ns"] == rows[1]["waited_ns"] > 0


def test_a_kernel_has_no_partners(trace: Trace, tree: Any) -> None:
    assert "sel-members" not in tree(selection.span(trace, row_of(trace, "B0", 1))).ids()


def test_a_span_of_another_run_is_told(trace: Trace, tree: Any) -> None:
    assert "no longer in the run" in tree(selection.span(trace, 10**9)).text


def test_a_rank_that_stands_for_others_is_said_to(tree: Any) -> None:
    big = run(load_scenario("lesson-zero3", ["world_size=16384"]))
    assert "stands for those of the 16,384 ranks" in tree(selection.span(big, 0)).text


def test_an_area_is_named_by_its_times(trace: Trace, tree: Any) -> None:
    parts = tree(selection.area(trace, 0, 2_000_000))
    assert parts.text.startswith("Between 0 ns and 2 ms")
    rows = parts.by_id("sel-window").rowData
    assert [row["window_ns"] for row in rows] == [2_000_000] * 3
    assert rows[0]["comm_ns"] + 0 <= 2_000_000
