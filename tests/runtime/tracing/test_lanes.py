"""Spans that overlap lie on streams of their own."""

from __future__ import annotations

from zerosim_runtime.tracing.lanes import Lanes


def test_a_span_that_begins_after_the_last_one_ended_lies_on_the_same_stream() -> None:
    lanes = Lanes()
    assert lanes.place("world", 0, 10) == "world"
    assert lanes.place("world", 10, 20) == "world"


def test_a_span_that_overlaps_another_lies_beside_it() -> None:
    lanes = Lanes()
    assert lanes.place("world", 0, 10) == "world"
    assert lanes.place("world", 5, 30) == "world 2"
    assert lanes.place("world", 20, 25) == "world"
    assert lanes.place("dp:1", 5, 6) == "dp:1"
