"""The address: whatever it says, something opens; what a page writes, it reads again."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim_app.urlstate import (
    MAX_INT,
    MAX_TEXT,
    AccuracyState,
    Align,
    By,
    CompareState,
    ExploreState,
    LearnState,
    Scale,
    Scores,
    Tab,
    address,
    decode,
    encode,
)

TEXT = st.text(min_size=1, max_size=MAX_TEXT).filter(str.isprintable)
TIMES = st.none() | st.integers(-MAX_INT, MAX_INT)
EXPLORE = st.builds(
    ExploreState,
    run=st.none() | TEXT,
    t0=TIMES,
    t1=TIMES,
    sel=st.none() | TEXT,
    ranks=st.none() | TEXT,
    tab=st.sampled_from(get_args(Tab)),
)
COMPARE = st.builds(
    CompareState,
    a=st.none() | TEXT,
    b=st.none() | TEXT,
    align=st.sampled_from(get_args(Align)),
    scale=st.sampled_from(get_args(Scale)),
    t0=TIMES,
    t1=TIMES,
    sel=st.none() | TEXT,
    ranks=st.none() | TEXT,
)


ACCURACY = st.builds(
    AccuracyState,
    view=st.sampled_from(get_args(Scores)),
    suite=TEXT,
    split=st.none() | TEXT,
    source=st.none() | TEXT,
    gpu=st.none() | TEXT,
    by=st.sampled_from(get_args(By)),
    series=st.none() | TEXT,
)


@given(ACCURACY)
def test_filters_survive_the_address_bar(state: AccuracyState) -> None:
    assert decode(AccuracyState, encode(state)) == state


@given(EXPLORE)
def test_explore_survives_the_address_bar(state: ExploreState) -> None:
    assert decode(ExploreState, encode(state)) == state


@given(COMPARE)
def test_compare_survives_the_address_bar(state: CompareState) -> None:
    assert decode(CompareState, "?" + encode(state)) == state


@given(st.integers(-MAX_INT, MAX_INT))
def test_a_lesson_step_survives_the_address_bar(step: int) -> None:
    assert decode(LearnState, encode(LearnState(step))) == LearnState(step)


@given(st.text(max_size=300))
def test_any_query_string_opens_a_page(query: str) -> None:
    for kind in (LearnState, ExploreState, CompareState, AccuracyState):
        assert isinstance(decode(kind, query), kind)


@given(
    st.dictionaries(
        st.sampled_from(["run", "t0", "tab", "sel", "x"]), st.none() | st.text() | st.integers()
    )
)
def test_any_page_arguments_open_a_page(arguments: dict[str, object]) -> None:
    assert isinstance(decode(ExploreState, arguments), ExploreState)


def test_defaults_are_left_out_of_the_address() -> None:
    assert encode(ExploreState()) == ""
    assert address("/explore", ExploreState(run="lesson-zero3")) == "/explore?run=lesson-zero3"
    assert address("/learn/zero3", LearnState()) == "/learn/zero3"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("run=a&t0=10&t1=20", ExploreState(run="a", t0=10, t1=20)),
        ("run=a&t0=ten", ExploreState(run="a")),
        ("run=a&t0=1e9", ExploreState(run="a")),
        ("t0=99999999999999999999", ExploreState()),
        ("tab=memory", ExploreState(tab="memory")),
        ("tab=nonsense", ExploreState()),
        ("run=&sel=", ExploreState()),
        ("run=%00", ExploreState()),
        ("run=" + "a" * 2_001, ExploreState()),
        ("unknown=1&run=b", ExploreState(run="b")),
    ],
)
def test_what_is_malformed_becomes_the_default(query: str, expected: ExploreState) -> None:
    assert decode(ExploreState, query) == expected


def test_names_with_special_characters_stay_whole() -> None:
    state = CompareState(a="a&b=c d", b="ü/%")
    assert decode(CompareState, encode(state)) == state
