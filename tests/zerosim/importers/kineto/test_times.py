"""Microseconds become nanoseconds without losing one."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.importers.kineto.times import fits_float, has_uneven_decimals, nanoseconds


@pytest.mark.parametrize(
    ("us", "ns"),
    [
        (1, 1000),
        (0, 0),
        (1200.5, 1_200_500),
        (4458676639291.351, 4_458_676_639_291_351),
        (1694128201436271, 1_694_128_201_436_271_000),
        (Decimal("1711964646123456.789"), 1_711_964_646_123_456_789),
        ("1000.0", 1_000_000),
        ("12.3456", 12_346),
        (-1, -1000),
    ],
)
def test_numbers_and_text_are_read_exactly(us: object, ns: int) -> None:
    assert nanoseconds(us) == ns


@pytest.mark.parametrize(
    "us",
    [
        *(None, True, "soon", "", [1], {}, float("nan"), float("inf"), Decimal("NaN")),
        *(2**63, 1e300, "1e300", Decimal("1e40"), "-1e999999"),
    ],
)
def test_what_is_no_time_is_none(us: object) -> None:
    assert nanoseconds(us) is None


@given(st.integers(min_value=0, max_value=2**43 * 1000 - 1))
def test_a_base_relative_float_gives_back_its_three_decimals(ns: int) -> None:
    us = float(f"{ns // 1000}.{ns % 1000:03d}")
    assert fits_float(us) or ns > 2**43 * 1000 - 10
    assert nanoseconds(us) == ns or not fits_float(us)


def test_a_float_of_epoch_microseconds_has_lost_digits() -> None:
    assert not fits_float(1711964646123456.789)
    assert fits_float(1711964646123456)
    assert fits_float("1711964646123456.789")


def test_decimals_of_several_lengths_are_noticed() -> None:
    assert has_uneven_decimals(b'{"ts": 1.5}, {"ts": 2.25}')
    assert not has_uneven_decimals(b'{"ts": 1.500}, {"ts": 2.250}, {"ts": 3}')
    assert not has_uneven_decimals(b'{"ts": 1.123456}, {"ts": 2.5}')
