"""Whole numbers of strangers: what is none, or fits no column, is unknown and never 0."""

from __future__ import annotations

import pytest

from zerosim.importers.counts import count, count_in_text, elements_of, total


def test_whole_numbers_count() -> None:
    assert (count(0), count(7), count(2**62 - 1)) == (0, 7, 2**62 - 1)
    assert (count(7, 8), count(8, 8)) == (7, None)


@pytest.mark.parametrize("value", [None, True, 1.0, "7", [7], -1, 2**62])
def test_all_else_is_unknown(value: object) -> None:
    assert count(value) is None


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *(("7", 7), (7, 7), ("007", 7)),
        *(("", None), ("-7", None), ("7.0", None), ("²", None), ("1" + "0" * 4999, None)),
    ],
)
def test_a_number_may_be_written_as_text(value: object, number: int | None) -> None:
    assert count_in_text(value) == number


def test_digits_are_never_cut_off() -> None:
    assert count_in_text("12345678901", 2**31) is None
    assert count_in_text("1" * 21) is None


@pytest.mark.parametrize(
    ("shape", "elements"),
    [
        *(([4, 3], 12), ((4, 3), 12), ([], 1), ([0, 3], 0)),
        *(([-4, -3], None), (["4"], None), ([True], None), ("43", None), ([2**40, 2**40], None)),
        ([1] * 65, None),
    ],
)
def test_a_shape_has_elements_only_if_it_is_one(shape: object, elements: int | None) -> None:
    assert elements_of(shape) == elements


def test_a_sum_is_unknown_if_a_part_of_it_is() -> None:
    assert total([1, 2]) == 3
    assert (total([1, None]), total([]), total([2**61, 2**61])) == (None, None, None)
