"""Whole numbers as files of others write them: what is none, or too large for a column, is unknown."""

from __future__ import annotations

from math import prod
from typing import Final

MOST: Final = 2**62
"""A number below this, and the sum of two, fits an int64."""
_MOST_DIMS: Final = 64
_MOST_DIGITS: Final = 20


def count(value: object, below: int = MOST) -> int | None:
    """`value` if it is a whole number from 0 on and `below` that; None if it is none."""
    return value if type(value) is int and 0 <= value < below else None


def count_in_text(value: object, below: int = MOST) -> int | None:
    """As `count`; the number may be written as a text of digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) <= _MOST_DIGITS else None
    return count(value, below)


def elements_of(shape: object) -> int | None:
    """The elements of a tensor of that shape, 1 of an empty one; None if it is no shape."""
    if not isinstance(shape, list | tuple) or len(shape) > _MOST_DIMS:
        return None
    return count(prod(shape)) if all(count(length) is not None for length in shape) else None


def total(counts: list[int | None]) -> int | None:
    """The sum of `counts`; None if one is unknown, or there are none."""
    known = [n for n in counts if n is not None]
    return count(sum(known)) if counts and len(known) == len(counts) else None
