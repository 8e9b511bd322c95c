"""The one door: what a trace must have, and how ranks of a class share their rows."""

from __future__ import annotations

from typing import Any

import orjson
import polars as pl
import pytest

from zerosim.errors import TraceFileError
from zerosim.trace import (
    SAMPLES,
    SPANS,
    Clock,
    Flag,
    Group,
    Meta,
    ModelFacts,
    Quality,
    RankClass,
    StateBytes,
    StepWindow,
    expand,
    make_trace,
    meta_from_dict,
    meta_to_dict,
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


@pytest.mark.parametrize("column", ["rank", "kind", "stream", "name", "start_ns", "end_ns"])
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


FULL = Meta(
    name="full",
    source="measured",
    world_size=2,
    scenario={"name": "s", "run": {"steps": 2}},
    engine="gloo",
    device="cpu",
    clock=Clock(aligned=True, error_ns=900, offsets_ns=((0, 0), (1, -50))),
    quality=Quality(events=4, warnings=("one",)),
    groups=(Group("world", 2, (0, 1)), Group("tp", 1)),
    steps=(StepWindow(0, 1, 0, 9),),
    classes=(RankClass(0, ((0, 1),)),),
    states=(StateBytes(0, 1, 2, 3),),
    model=ModelFacts(10, None, None, 5, 1e12),
    finished=False,
)


def test_a_header_survives_json() -> None:
    assert meta_from_dict(orjson.loads(orjson.dumps(meta_to_dict(FULL)))) == FULL


@pytest.mark.parametrize("field", ["clock", "groups", "steps", "classes", "states", "quality"])
def test_a_header_that_lacks_a_field_is_refused(field: str) -> None:
    record = meta_to_dict(FULL)
    del record[field]
    with pytest.raises(TraceFileError, match=r"run\.json does not describe a run"):
        meta_from_dict(record)


@pytest.mark.parametrize(
    ("field", "value"),
    [("clock", 3), ("groups", [1]), ("steps", [{}]), ("classes", {"a": 1}), ("colour", "red")],
)
def test_a_header_with_a_field_that_makes_no_sense_is_refused(field: str, value: object) -> None:
    record = meta_to_dict(FULL) | {field: value}
    with pytest.raises(TraceFileError, match=r"run\.json does not describe a run"):
        meta_from_dict(record)
