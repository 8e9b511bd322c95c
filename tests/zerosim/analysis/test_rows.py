"""Rows of a timeline: who stands for whom, lanes in their order, and no overlap on any row."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.analysis import rows as rows_module
from zerosim.analysis.rows import (
    MAX_SUBLANES,
    Choice,
    Row,
    RowGroup,
    RowTable,
    assign_rows,
    choose_ranks,
    lane_order,
)
from zerosim.errors import InputError
from zerosim.trace import Meta, RankClass, Trace, make_trace

Span = tuple[int, str, int, int]


def trace_of(spans: list[Span], classes: tuple[RankClass, ...] = ()) -> Trace:
    columns: dict[str, Any] = {
        "rank": [s[0] for s in spans],
        "stream": [s[1] for s in spans],
        "kind": ["other"] * len(spans),
        "name": [f"op{i}" for i in range(len(spans))],
        "start_ns": [s[2] for s in spans],
        "end_ns": [s[3] for s in spans],
    }
    return make_trace(columns if spans else {}, Meta("made", "simulated", 4, classes=classes))


def table_of(spans: list[Span], choice: Choice = "all") -> RowTable:
    return assign_rows(choose_ranks(trace_of(spans), choice))


def test_streams_stand_in_a_fixed_order_and_others_by_name_and_number() -> None:
    streams = [
        "stream 21",
        "stream 7",
        "copy",
        "reduce_scatter",
        "compute",
        "all_gather",
        "host",
        "all_reduce",
        "a",
    ]
    assert lane_order(streams) == (
        "host", "compute", "all_gather", "reduce_scatter", "all_reduce", "copy", "a", "stream 7", "stream 21",
    )  # fmt: skip


def test_each_rank_has_its_rows_together() -> None:
    table = table_of([(1, "compute", 0, 5), (0, "all_gather", 0, 5), (0, "compute", 0, 5)])
    assert table.rows == (Row(0, "compute", 0), Row(0, "all_gather", 0), Row(1, "compute", 0))
    assert table.row_of.tolist() == [1, 0, 2]
    assert [(g.rank, g.first_row, g.n_rows) for g in table.groups] == [(0, 0, 2), (1, 2, 1)]


def test_spans_that_follow_each_other_share_a_row() -> None:
    assert table_of([(0, "compute", 0, 5), (0, "compute", 5, 9)]).row_of.tolist() == [0, 0]


def test_spans_that_overlap_get_sublanes_with_the_longer_on_top() -> None:
    table = table_of(
        [(0, "host", 0, 4), (0, "host", 0, 10), (0, "host", 4, 8), (0, "host", 12, 13)]
    )
    assert [row.sub for row in table.rows] == [0, 1]
    assert table.row_of.tolist() == [1, 0, 1, 0]


def test_spans_without_duration_have_no_row_and_are_counted() -> None:
    table = table_of([(0, "compute", 0, 5), (0, "compute", 2, 2)])
    assert table.row_of.tolist() == [0, -1]
    assert table.instant == 1


def test_more_overlap_than_can_be_drawn_is_counted() -> None:
    table = table_of([(0, "host", 0, 10)] * (MAX_SUBLANES + 3))
    assert len(table.rows) == MAX_SUBLANES
    assert table.crowded == 3
    assert sorted(table.row_of.tolist())[:4] == [-1, -1, -1, 0]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["compute", "x"]),
            st.integers(0, 60),
            st.integers(0, 20),
        ),
        max_size=40,
    )
)
def test_no_two_spans_of_a_row_overlap(drawn: list[Span]) -> None:
    chosen = choose_ranks(
        trace_of([(r, name, at, at + long) for r, name, at, long in drawn]), "all"
    )
    table = assign_rows(chosen)
    assert table.instant == sum(1 for span in drawn if span[3] == 0)
    placed = chosen.spans.with_columns(row=pl.Series(table.row_of))
    for number, row in enumerate(table.rows):
        on_row = placed.filter(pl.col("row") == number).sort("start_ns")
        assert set(on_row["rank"]) == {table.groups[row.group].rank}
        assert set(on_row["stream"]) == {row.lane}
        assert all(
            end <= after
            for end, after in zip(on_row["end_ns"][:-1], on_row["start_ns"][1:], strict=True)
        )


def test_equal_ranks_are_shown_once() -> None:
    chosen = choose_ranks(
        trace_of([(0, "compute", 0, 5), (9, "compute", 0, 6)], (RankClass(0, ((0, 8), (10, 15))),))
    )
    assert [g.label for g in chosen.groups] == ["ranks 0-8, 10-15", "rank 9"]
    assert chosen.spans["rank"].to_list() == [0, 9]


def test_a_class_whose_rows_are_all_there_shows_only_its_representative() -> None:
    spans = [(rank, "compute", 0, 5) for rank in range(4)]
    chosen = choose_ranks(trace_of(spans, (RankClass(0, ((0, 3),)),)))
    assert chosen.spans["source"].to_list() == [0]
    assert [g.label for g in chosen.groups] == ["ranks 0-3"]


def test_a_class_whose_representative_has_no_rows_is_shown_by_another() -> None:
    chosen = choose_ranks(trace_of([(2, "compute", 0, 5)], (RankClass(0, ((0, 3),)),)))
    assert [g.rank for g in chosen.groups] == [2]


def test_all_ranks_are_copies_that_remember_their_source() -> None:
    trace = trace_of([(0, "compute", 0, 5), (0, "compute", 5, 9)], (RankClass(0, ((0, 2),)),))
    chosen = choose_ranks(trace, "all")
    assert chosen.spans["rank"].to_list() == [0, 0, 1, 1, 2, 2]
    assert chosen.spans["source"].to_list() == [0, 1, 0, 1, 0, 1]
    assert [g.label for g in chosen.groups] == ["rank 0", "rank 1", "rank 2"]


def test_chosen_ranks_are_shown_in_ascending_order() -> None:
    trace = trace_of([(r, "compute", 0, 5) for r in range(6)])
    assert [g.rank for g in choose_ranks(trace, (5, 0, 5)).groups] == [0, 5]


def test_an_unknown_rank_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no rank 7: it has ranks 0 to 1"):
        choose_ranks(trace_of([(0, "compute", 0, 5), (1, "compute", 0, 5)]), (7,))


def test_too_many_spans_are_refused_before_they_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_SPANS", 100)
    trace = trace_of([(0, "compute", 0, 5)], (RankClass(0, ((0, 16383),)),))
    with pytest.raises(InputError, match=r"16384 ranks of 'made' are 16384 spans.*ranks=0,1"):
        choose_ranks(trace, "all")


def test_classes_that_name_absurdly_many_ranks_are_refused_at_once() -> None:
    trace = trace_of([(0, "compute", 0, 5)], (RankClass(0, ((0, 1_999_999),)),))
    with pytest.raises(InputError, match="names 2000000 ranks: at most 1000000 do"):
        choose_ranks(trace)


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_ROWS", 3)
    with pytest.raises(InputError, match="need 4 rows"):
        table_of([(0, f"s{i}", 0, 5) for i in range(4)])


def test_a_run_without_spans_has_no_rows() -> None:
    table = table_of([], "classes")
    assert table.rows == ()
    assert table.groups == ()
    assert table.row_of.tolist() == []


@pytest.mark.parametrize(
    ("members", "label"),
    [
        (((3, 3),), "rank 3"),
        (((0, 15),), "ranks 0-15"),
        (((0, 6), (8, 8)), "ranks 0-6, 8"),
        (((1, 1), (3, 3)), "ranks 1, 3"),
    ],
)
def test_groups_are_called_after_their_ranks(
    members: tuple[tuple[int, int], ...], label: str
) -> None:
    assert RowGroup(members[0][0], members).label == label


def test_the_trace_is_left_as_it_was() -> None:
    trace = trace_of([(0, "compute", 0, 5)])
    before = trace.spans.clone()
    assign_rows(choose_ranks(trace))
    assert trace.spans.equals(before)
    assert isinstance(trace.spans, pl.DataFrame)
