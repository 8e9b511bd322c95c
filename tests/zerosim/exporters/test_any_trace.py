"""Whatever the spans are, nothing crosses on a track, and Chrome JSON comes back as the same table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zerosim.exporters.sameness import table
from zerosim.errors import InputError
from zerosim.exporters import export
from zerosim.exporters.lanes import lay_apart
from zerosim.importers import read
from zerosim.kinds import COMMUNICATION, KINDS
from zerosim.trace import Clock, Meta, make_trace

ALONE = [kind for kind in KINDS if kind not in COMMUNICATION]  # others are tied when they are read
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MOMENTS = st.one_of(st.integers(-50, 50), st.integers(1_759_300_074 * 10**9, 18 * 10**17))
SPANS = st.fixed_dictionaries(
    {
        "rank": st.integers(0, 2),
        "stream": st.sampled_from(["stream 7", "stream 07", "stream 0", "compute", "", "host"]),
        "kind": st.sampled_from(ALONE),
        "name": NAMES,
        "unit": st.none() | NAMES,
        "start_ns": MOMENTS,
        "length": st.integers(0, 60),
        "ahead": st.none() | st.integers(0, 30),
        "step": st.none() | st.integers(0, 3),
        "elements": st.none() | st.integers(0, 2**40),
        "flags": st.integers(0, 15),
    }
)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=40))
def test_on_a_track_intervals_lie_inside_or_beside_each_other(places: list[Any]) -> None:
    intervals = [(start, start + length) for start, length in places]
    lanes = lay_apart(intervals)
    for i, (a, b) in enumerate(intervals):
        for j, (c, d) in enumerate(intervals[:i]):
            crossing = a < c < b < d or c < a < d < b
            assert lanes[i] != lanes[j] or not crossing


def test_what_follows_or_lies_inside_needs_no_other_track() -> None:
    assert lay_apart([(0, 10), (2, 5), (5, 10), (10, 12), (12, 12)]) == [0, 0, 0, 0, 0]
    assert lay_apart([(0, 10), (5, 15), (11, 20)]) == [0, 1, 0]


def test_a_stream_on_which_too_much_crosses_is_refused() -> None:
    with pytest.raises(InputError, match="more than 2048 spans of one stream cross"):
        lay_apart([(i, 10_000 + i) for i in range(2049)])


@given(spans=st.lists(SPANS, min_size=1, max_size=12))
def test_chrome_json_comes_back_as_the_same_table(
    spans: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [
        {
            **{key: value for key, value in span.items() if key not in ("length", "ahead")},
            "end_ns": span["start_ns"] + span["length"],
            "issued_ns": None if span["ahead"] is None else span["start_ns"] - span["ahead"],
        }
        for span in spans
    ]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    meta = Meta(name="any", source="imported", world_size=3, clock=Clock(aligned=False))
    trace = make_trace(columns, meta)
    path = tmp_path_factory.mktemp("any") / "all.json"
    export(trace, "chrome", path)
    assert table(read([path])) == table(trace)
