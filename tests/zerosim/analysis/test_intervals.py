"""Sets of intervals: the fast way equals counting nanoseconds one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zerosim.analysis import intervals as iv
from zerosim.analysis.intervals import Intervals

Pairs = list[tuple[int, int]]
PAIRS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=12,
)


def make(pairs: Pairs) -> Intervals:
    return Intervals(
        np.array([a for a, _ in pairs], dtype=np.int64),
        np.array([b for _, b in pairs], dtype=np.int64),
    )


def listed(found: Intervals) -> Pairs:
    return list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))


def moments(pairs: Pairs) -> set[int]:
    return {t for a, b in pairs for t in range(a, b)}


def test_overlaps_count_once() -> None:
    assert iv.measure(make([(0, 10), (5, 15), (20, 25)])) == 20


def test_intervals_that_touch_become_one() -> None:
    assert listed(iv.union(make([(10, 20), (0, 10), (30, 40)]))) == [(0, 20), (30, 40)]


def test_an_interval_inside_another_changes_nothing() -> None:
    assert listed(iv.union(make([(0, 100), (10, 20), (90, 95)]))) == [(0, 100)]


def test_empty_intervals_are_nothing() -> None:
    assert listed(iv.union(make([(5, 5), (7, 7)]))) == []
    assert iv.measure(make([])) == 0


def test_what_is_subtracted_is_gone() -> None:
    assert listed(iv.subtract(make([(0, 10), (20, 30)]), make([(5, 22), (25, 26)]))) == [
        *((0, 5), (22, 25), (26, 30)),
    ]


def test_clipping_keeps_what_lies_inside() -> None:
    assert listed(iv.clip(make([(0, 10), (8, 20), (30, 40)]), 5, 15)) == [(5, 10), (8, 15)]


def test_gaps_are_what_is_left_of_a_window() -> None:
    assert listed(iv.gaps(make([(2, 4), (3, 6), (9, 99)]), 0, 10)) == [(0, 2), (6, 9)]
    assert listed(iv.gaps(make([]), 0, 10)) == [(0, 10)]
    assert listed(iv.gaps(make([(0, 10)]), 0, 10)) == []


def test_joining_keeps_all() -> None:
    assert listed(iv.join(make([(0, 1)]), make([(5, 6)]))) == [(0, 1), (5, 6)]
    assert len(iv.join()) == 0


def test_segments_are_measured_apart() -> None:
    segments = np.array([0, 1, 0, 2])
    found = iv.measure_by(segments, make([(0, 10), (0, 10), (5, 20), (7, 8)]), 4)
    assert found.tolist() == [20, 10, 1, 0]


def test_segments_of_far_apart_times_do_not_overflow() -> None:
    segments = np.array([0, 1, 1])
    far = Intervals(np.array([0, 2**60, 5]), np.array([10, 2**60 + 3, 7]))
    assert iv.measure_by(segments, far, 100).tolist()[:3] == [10, 5, 0]


@given(PAIRS)
def test_union_holds_the_same_moments_disjoint_and_ascending(pairs: Pairs) -> None:
    found = listed(iv.union(make(pairs)))
    assert moments(found) == moments(pairs)
    assert all(a < b for a, b in found)
    assert all(first[1] < second[0] for first, second in pairwise(found))
    assert iv.measure(make(pairs)) == len(moments(pairs))


@given(PAIRS, PAIRS)
def test_subtraction_holds_the_moments_of_one_without_the_other(a: Pairs, b: Pairs) -> None:
    assert moments(listed(iv.subtract(make(a), make(b)))) == moments(a) - moments(b)


@given(PAIRS, PAIRS)
def test_exposed_time_is_the_union_less_what_covers_it(a: Pairs, b: Pairs) -> None:
    both = iv.measure(iv.join(make(a), make(b)))
    assert both - iv.measure(make(b)) == iv.measure(iv.subtract(make(a), make(b)))


@given(PAIRS, st.data())
def test_measuring_by_segment_equals_measuring_each(pairs: Pairs, data: st.DataObject) -> None:
    segments = data.draw(st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)))
    found = iv.measure_by(np.array(segments, dtype=np.int64), make(pairs), 4)
    each = [make([p for p, s in zip(pairs, segments, strict=True) if s == k]) for k in range(4)]
    assert found.tolist() == [iv.measure(part) for part in each]
