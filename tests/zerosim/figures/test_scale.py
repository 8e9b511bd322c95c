"""Axes carry the unit that people would say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.figures.scale import byte_scale, time_scale


@pytest.mark.parametrize(
    ("largest", "unit"), [(0, "ns"), (999, "ns"), (1_000, "µs"), (2_500_000, "ms"), (10**9, "s")]
)
def test_times_are_told_in_the_largest_unit_that_fits(largest: int, unit: str) -> None:
    assert time_scale(largest).unit == unit


def test_bytes_are_decimal_as_in_the_papers() -> None:
    assert byte_scale(1_500_000_000).unit == "GB"
    assert byte_scale(1_500_000_000)([3_000_000_000, 0]) == [3.0, 0.0]


@given(st.integers(min_value=1, max_value=10**18))
def test_the_largest_value_is_at_least_one_in_its_unit(largest: int) -> None:
    assert time_scale(largest)([largest])[0] >= 1
    assert byte_scale(largest)([largest])[0] >= 1
