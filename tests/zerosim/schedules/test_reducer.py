"""The reducer's buckets: limits by turn, whole parameters, and the order in which they are launched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zerosim.models import uniform
from zerosim.schedules.arrival import arrived, defined
from zerosim.schedules.reducer import (
    Bucket,
    Launches,
    Limits,
    Stretch,
    initial_buckets,
    rebuilt_buckets,
    stretches,
)

TWO = uniform(layers=2, hidden=3, tokens=1)  # weights of 9, biases of 3 elements


def test_parameters_are_listed_as_defined_and_arrive_backwards() -> None:
    assert defined(TWO) == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert arrived(TWO) == ((1, 1), (1, 0), (0, 1), (0, 0))


def test_each_limit_closes_one_bucket_and_the_last_one_all_that_follow() -> None:
    limits = Limits((None,), (12, 36))
    sizes = [bucket.elements for bucket in rebuilt_buckets(TWO, limits, element_bytes=4)]
    assert sizes == [3, 9, 12]  # 12 bytes reach 12; 36 reach 36; 12 + 36 at the end


def test_no_limit_is_one_bucket() -> None:
    (only,) = initial_buckets(TWO, Limits((None,), (1,)), element_bytes=4)
    assert (only.elements, only.label) == (24, "1-0")


def test_first_buckets_are_cut_as_defined_and_numbered_from_the_end() -> None:
    found = initial_buckets(TWO, Limits((36,), (36,)), element_bytes=4)
    assert [(b.index, b.elements, b.label) for b in found] == [
        (0, 3, "1"),
        (1, 12, "1-0"),
        (2, 9, "0"),
    ]


def test_a_full_bucket_waits_for_those_before_it() -> None:
    first = Bucket(0, "a", frozenset({(0, 0)}), 1)
    second = Bucket(1, "b", frozenset({(1, 0)}), 1)
    log: list[tuple[str, tuple[int, ...]]] = []

    def launch(bucket: Bucket, fills: tuple[int, ...]) -> int:
        log.append((bucket.label, fills))
        return len(log)

    launches = Launches((first, second), launch)
    launches.filled(Stretch(0, second, ((1, 0),), 1, 1, 1, last=True), 7)
    assert log == []
    launches.filled(Stretch(1, first, ((0, 0),), 1, 0, 0, last=True), 9)
    assert log == [("a", (9,)), ("b", (7,))]
    assert launches.launched == [1, 2]


@given(
    layers=st.integers(1, 5),
    hidden=st.integers(1, 6),
    caps=st.lists(st.integers(0, 200), min_size=1, max_size=3),
)
def test_every_parameter_is_in_one_bucket_and_arrives_in_one_stretch(
    layers: int, hidden: int, caps: list[int]
) -> None:
    workload = uniform(layers=layers, hidden=hidden, tokens=1)
    limits = Limits(tuple(caps), tuple(caps))
    for buckets in (initial_buckets(workload, limits, 4), rebuilt_buckets(workload, limits, 4)):
        assert sorted(key for bucket in buckets for key in bucket.keys) == sorted(defined(workload))
        found = stretches(workload, buckets)
        assert tuple(key for stretch in found for key in stretch.keys) == arrived(workload)
        assert sum(stretch.last for stretch in found) == len(buckets)
