"""The one door: what a trace must have, and how ranks of a class share their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from zerosim.errors import TraceFileError
from zerosim.kinds import Kind
from zerosim.trace import (
    SAMPLES,
    SPANS,
    Flag,
    Meta,
    RankClass,
    expand,
    flagged,
    make_trace,
    of_kind,
)

META = Meta("m", "imported", 2)


def rows(**columns: list[Any]) -> dict[str, Any]:
    return {
        "rank": [0, 1],
        "stream": ["compute", "compute"],
        "kind": ["forward", "backward"],
        "name": ["F0", "B0"],
        "start_ns": [0, 5],
        "end_ns": [5, 9],
        **columns,
    }


def test_absent_columns_are_unknown_and_not_zero() -> None:
    spans = make_trace(rows(), META).spans
    assert spans.schema == pl.Schema(SPANS)
    assert spans["nbytes"].to_list() == [None, None]
    assert spans["issued_ns"].to_list() == [None, None]
    assert spans["flags"].to_list() == [0, 0]


def test_a_trace_without_rows_has_all_columns() -> None:
    trace = make_trace({}, META)
    assert trace.spans.schema == pl.Schema(SPANS)
    assert trace.samples.schema == pl.Schema(SAMPLES)
    assert trace.ranks == ()


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(TraceFileError, match="a span of 'm' ends before it starts"):
        make_trace(rows(end_ns=[5, 4]), META)


@pytest.mark.parametrize(
    "column", ["rank", "kind", "stream", "name", "start_ns", "end_ns", "flags"]
)
def test_a_span_without_what_every_span_has_is_refused(column: str) -> None:
    with pytest.raises(TraceFileError, match=f"spans of 'm' lack '{column}' in some rows"):
        make_trace(rows(**{column: [None, None]}), META)


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(TraceFileError, match=r"unknown columns \['colour'\]"):
        make_trace(rows(colour=["red", "red"]), META)


def test_a_kind_outside_the_closed_list_is_refused() -> None:
    with pytest.raises(pl.exceptions.PolarsError):
        make_trace(rows(kind=["forward", "sideways"]), META)


def test_flags_can_be_told_apart() -> None:
    assert [flag.value for flag in Flag] == [1, 2, 4, 8]


def folded() -> Any:
    meta = Meta("m", "simulated", 6, classes=(RankClass(0, ((0, 3),)), RankClass(4, ((4, 5),))))
    samples = {"time_ns": [0], "rank": [0], "counter": ["memory.in_use"], "value": [7]}
    return make_trace(rows(rank=[0, 4]), meta, samples)


def test_expanding_copies_the_rows_of_a_class_to_its_members() -> None:
    every = expand(folded())
    assert every.ranks == (0, 1, 2, 3, 4, 5)
    assert every.spans["end_ns"].to_list() == [5, 5, 5, 5, 9, 9]
    assert every.samples.select("rank", "value").rows() == [(0, 7), (1, 7), (2, 7), (3, 7)]


def test_expanding_to_some_ranks_gives_these_and_no_others() -> None:
    assert expand(folded(), (2, 5)).spans.select("rank", "end_ns").rows() == [(2, 5), (5, 9)]


def test_a_rank_of_no_class_stays_absent() -> None:
    assert expand(folded(), (3, 17)).ranks == (3,)


def test_a_class_counts_and_lists_its_members() -> None:
    members = RankClass(1, ((1, 3), (7, 7)))
    assert members.ranks == (1, 2, 3, 7)
    assert members.size == 4


def test_spans_are_chosen_by_kind_and_by_flag() -> None:
    flags = [int(Flag.UNTIMED | Flag.REPAIRED), int(Flag.UNFINISHED)]
    spans = make_trace(rows(flags=flags), META).spans
    assert spans.filter(of_kind([Kind.BACKWARD, Kind.WAIT]))["name"].to_list() == ["B0"]
    assert spans.filter(flagged(Flag.UNTIMED))["name"].to_list() == ["F0"]
    assert spans.filter(flagged(Flag.UNTIMED | Flag.UNFINISHED)).height == 2
    assert spans.filter(~flagged(Flag.BEFORE_WINDOW)).height == 2


def test_a_run_begins_with_its_first_span() -> None:
    assert make_trace(rows(start_ns=[3, 2]), META).begin_ns == 2
    assert make_trace({}, META).begin_ns == 0


def test_ranks_are_seen_through_their_rows_or_those_of_their_class() -> None:
    classes = (RankClass(0, ((0, 2), (6, 6))),)
    trace = make_trace(rows(rank=[0, 9]), replace(META, classes=classes))
    assert trace.ranks == (0, 9)
    assert trace.seen_ranks == {0, 1, 2, 6, 9}
