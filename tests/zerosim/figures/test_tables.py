"""Tables: rows as the run says, null where it does not."""

from __future__ import annotations

from zerosim.analysis.comparison import compare
from zerosim.figures.tables import (
    collectives,
    matched,
    members,
    operations,
    span_facts,
    window,
)
from zerosim.trace import Flag, Meta, Trace, make_trace

MS = 1_000_000


def test_ops_are_listed_in_issue_order_since_the_start(two: Trace) -> None:
    rows = operations(two, 1)
    assert [row["name"] for row in rows] == ["AG0", "F0", "B0", "fill0", "RS0", "OPT"]
    assert [row["start_ns"] // MS for row in rows] == [0, 10, 30, 70, 72, 90]
    assert rows[2]["took_ns"] == 40 * MS


def test_only_collectives_wait_and_move(two: Trace) -> None:
    by_name = {row["name"]: row for row in operations(two, 0)}
    assert by_name["AG0"]["waited_ns"] == 0
    assert by_name["AG0"]["moves"] is True
    assert by_name["F0"]["waited_ns"] is None
    assert by_name["F0"]["moves"] is False


def test_who_comes_first_waits(skewed: Trace) -> None:
    first = {row["name"]: row for row in operations(skewed, 0)}["RS0"]
    last = {row["name"]: row for row in operations(skewed, 1)}["RS0"]
    assert (first["waited_ns"], last["waited_ns"]) == (5 * MS, 0)


def test_collectives_are_summed_by_kind(skewed: Trace) -> None:
    rows = {row["kind"]: row for row in collectives(skewed, 0)}
    assert rows["reduce_scatter"] == {
        "kind": "reduce_scatter",
        "dtype": "float32",
        "group": "world",
        "count": 1,
        "nbytes": 4_000,
        "wire_bytes": 2_000,
        "transfer_ns": 13 * MS,
        "waited_ns": 5 * MS,
        "ranks": 2,
        "busbw": 2_000 / 0.013,
    }
    assert rows["all_gather"]["transfer_ns"] == 10 * MS


def test_a_size_that_one_span_lacks_is_unknown_for_the_sum(two: Trace) -> None:
    spans = two.spans.with_columns(
        wire_bytes=two.spans["wire_bytes"].set(two.spans["name"].cast(str) == "AG0", None)
    )
    rows = {row["kind"]: row for row in collectives(Trace(spans, two.samples, two.meta), 0)}
    assert rows["all_gather"]["wire_bytes"] is None
    assert rows["all_gather"]["busbw"] is None
    assert rows["reduce_scatter"]["wire_bytes"] == 2_000


def test_a_selected_collective_lists_its_members(skewed: Trace) -> None:
    index = 4
    assert skewed.spans["name"][index] == "RS0"
    assert members(skewed, index) == [
        {
            "rank": 0,
            "arrived_ns": 72 * MS,
            "waited_ns": 5 * MS,
            "transfer_ns": 13 * MS,
            "end_ns": 90 * MS,
        },
        {
            "rank": 1,
            "arrived_ns": 77 * MS,
            "waited_ns": 0,
            "transfer_ns": 13 * MS,
            "end_ns": 90 * MS,
        },
    ]
    facts = span_facts(skewed, index)
    assert facts is not None
    assert (facts["took_ns"], facts["waited_ns"]) == (18 * MS, 5 * MS)


def test_a_selected_kernel_has_no_members(two: Trace) -> None:
    assert members(two, 1) == []
    facts = span_facts(two, 1)
    assert facts is not None
    assert facts["waited_ns"] is None


def test_a_span_that_is_not_there_has_no_facts(two: Trace) -> None:
    assert span_facts(two, 12) is None
    assert span_facts(two, -1) is None


def test_untimed_spans_took_nobody_knows_how_long() -> None:
    spans = {"rank": [0], "kind": ["all_gather"], "stream": ["nccl"], "name": ["AG"],
             "start_ns": [3], "end_ns": [3], "flags": [int(Flag.UNTIMED)]}  # fmt: skip
    trace = make_trace(spans, Meta("untimed", "imported", None))
    assert operations(trace, 0)[0]["took_ns"] is None
    facts = span_facts(trace, 0)
    assert facts is not None
    assert facts["took_ns"] is None


def test_a_window_counts_what_is_inside_it(two: Trace) -> None:
    rows = window(two, 5 * MS, 20 * MS)
    assert [row["rank"] for row in rows] == [0, 1]
    assert (rows[0]["window_ns"], rows[0]["comm_ns"], rows[0]["compute_ns"]) == (
        15 * MS,
        5 * MS,
        10 * MS,
    )
    assert rows[0]["exposed_ns"] == 5 * MS


def test_matched_ops_are_summed_by_kind(two: Trace, skewed: Trace) -> None:
    rows = {row["kind"]: row for row in matched(compare(two, skewed)["residuals"])}
    assert rows["reduce_scatter"]["count"] == 2
    assert rows["reduce_scatter"]["a_sum"] == 36 * MS
    assert rows["reduce_scatter"]["b_sum"] == 26 * MS
    assert rows["reduce_scatter"]["delta_ns"] == -10 * MS
    assert rows["forward"]["ratio"] == 1.0


def test_no_residuals_make_an_empty_table() -> None:
    assert matched([]) == []
