"""Parameters by number, and how their buckets are called."""

from __future__ import annotations

from zerosim.models import uniform
from zerosim.schedules.numbered import (
    begun,
    completed,
    defined,
    label,
    listed,
    numbers,
    unit_names,
    used,
)

TWO = uniform(layers=2, hidden=2, tokens=1)


def test_numbers_run_over_all_units() -> None:
    assert numbers(TWO, ((0, 0), (0, 1), (1, 0), (1, 1))) == (0, 1, 2, 3)
    assert (used(TWO), defined(TWO), listed(TWO)) == (((0, 1), (2, 3)), (0, 1, 2, 3), (0, 1, 2, 3))
    assert begun(TWO) == completed(TWO) == ((1, 0), (3, 2))


def test_buckets_are_called_by_the_units_at_their_ends() -> None:
    names = unit_names(uniform(layers=3, hidden=2, tokens=1))
    assert names == ("0", "0", "1", "1", "2", "2")
    assert [label(names, bucket) for bucket in ((5, 4), (5, 0))] == ["2", "2-0"]
