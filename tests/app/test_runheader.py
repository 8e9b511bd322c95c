"""What timeline.json says of a run as a whole: nothing made up, every colour from the palette."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.kinds import KINDS
from zerosim.trace import Clock, Meta, RankClass, StepWindow, Trace, make_trace
from zerosim_app.runheader import palette_record, run_record


def trace_of(ranks: tuple[int, ...] = (0,), **meta: Any) -> Trace:
    columns = {
        "rank": list(ranks),
        "stream": ["compute"] * len(ranks),
        "kind": ["forward"] * len(ranks),
        "name": ["F0"] * len(ranks),
        "start_ns": [1000] * len(ranks),
        "end_ns": [2000] * len(ranks),
    }
    facts: dict[str, Any] = {"name": "made", "source": "imported", "world_size": None, **meta}
    return make_trace(columns, Meta(**facts))


def test_colours_come_from_the_palette_for_both_themes() -> None:
    record = palette_record()
    assert record["kinds"] == list(KINDS)
    assert len(record["kind_role"]) == len(KINDS)
    roles = [record["roles"][role]["key"] for role in record["kind_role"]]
    assert roles[KINDS.index("forward")] == "forward"
    assert roles[KINDS.index("all_gather")] == "all_gather"
    classes = dict(zip(KINDS, record["kind_class"], strict=True))
    assert (classes["forward"], classes["all_gather"]) == ("compute", "communication")
    assert (classes["wait"], classes["host"], classes["other"]) == ("host", "host", "compute")
    forward = record["roles"][0]
    assert (forward["light"], forward["dark"]) == ("#41619E", "#6393F8")
    assert set(record["theme"]) == {"background", "ink", "muted", "grid", "runs"}


def test_every_kind_has_a_colour_in_both_themes() -> None:
    record = palette_record()
    for role in record["kind_role"]:
        swatch = record["roles"][role]
        assert len(swatch["light"]) == len(swatch["dark"]) == len("#rrggbb")


def test_what_is_unknown_of_a_run_is_null() -> None:
    record = run_record(trace_of(), 0)
    assert record["world_size"] is None
    assert record["engine"] is None
    assert record["device"] is None
    assert record["main_step"] is None
    assert record["steps"] == []


def test_a_run_says_who_made_it_and_whether_it_can_be_trusted() -> None:
    record = run_record(trace_of(finished=False, clock=Clock(aligned=False), engine="x"), 0)
    assert record["name"] == "made"
    assert record["source"] == "imported"
    assert (record["finished"], record["aligned"], record["engine"]) == (False, False, "x")


@pytest.mark.parametrize(
    ("ranks", "classes", "seen"),
    [
        ((0, 3), (), {0, 3}),
        ((0,), (RankClass(0, ((0, 3),)),), {0, 1, 2, 3}),
        ((0, 9), (RankClass(0, ((0, 1),)),), {0, 1, 9}),
    ],
)
def test_ranks_are_seen_by_their_rows_or_their_class(
    ranks: tuple[int, ...], classes: tuple[RankClass, ...], seen: set[int]
) -> None:
    trace = trace_of(ranks, classes=classes)
    assert trace.seen_ranks == seen
    assert run_record(trace, 0)["n_ranks"] == len(seen)
    assert run_record(trace, 0)["n_classes"] == len(classes)


def test_steps_count_from_the_runs_start_and_the_last_complete_one_is_main() -> None:
    steps = (
        StepWindow(0, 1, 1000, 1500),
        StepWindow(3, 1, 1100, 1700),
        StepWindow(0, 2, 1500, 2000),
        StepWindow(3, 2, 1700, 1900),
        StepWindow(0, 3, 2000, 2500),
    )
    record = run_record(trace_of((0, 3), steps=steps), 1000)
    assert record["steps"] == [[1, 0, 700, 600], [2, 500, 1000, 500], [3, 1000, 1500, 500]]
    assert record["main_step"] == 2
