"""When a bucket of ColossalAI's is full, and what a dropped layer leaves."""

from __future__ import annotations

import pytest

from zerosim.errors import UnknownNameError
from zerosim.models import uniform
from zerosim.schedules.colossalai.flushes import Flush, flushes, without


def test_a_dropped_layer_is_left_out_and_a_wrong_name_gets_a_suggestion() -> None:
    three = uniform(layers=3, hidden=2, tokens=1)
    assert [layer.name for layer in without(three, "1, 0").layers] == ["2"]
    with pytest.raises(UnknownNameError, match="no layer '3'"):
        without(three, "3")


def test_a_gradient_that_would_overflow_its_bucket_has_it_reduced_first() -> None:
    found = flushes((3, 2, 1, 0), numel=(4, 4, 4, 9), held=(4, 4, 4, 9), cap=8)
    assert found == (
        Flush(0, at=2, parameters=(3,)),  # larger than a bucket: alone, reduced when the next comes
        Flush(1, at=0, parameters=(2, 1)),
        Flush(2, at=None, parameters=(0,)),
    )


def test_padding_fills_a_bucket_and_does_not_count_when_a_gradient_arrives() -> None:
    # ColossalAI compares padded elements in the bucket plus the plain size of the new gradient.
    assert len(flushes((1, 0), numel=(5, 5), held=(8, 8), cap=13)) == 1
    assert len(flushes((1, 0), numel=(5, 5), held=(8, 8), cap=12)) == 2


def test_each_owner_has_a_bucket_and_what_is_left_goes_by_owner() -> None:
    found = flushes(
        (3, 2, 1, 0), numel=(4,) * 4, held=(4,) * 4, cap=4, owners={0: 0, 1: 1, 2: 0, 3: 1}
    )
    assert [(b.at, b.owner, b.parameters) for b in found] == [
        (1, 1, (3,)),
        (0, 0, (2,)),
        (None, 0, (0,)),
        (None, 1, (1,)),
    ]
