"""Gradients that are moved away as they come are held one at a time; shared ones until they are whole."""

from __future__ import annotations

from zerosim.plan import Allocation
from zerosim.schedules.passing import PASSING, passing, waiting

NUMEL = (6, 2, 4)


def test_the_largest_gradient_stands_for_those_that_pass() -> None:
    assert passing((1, 0), (1, 0), NUMEL, 2) == (Allocation(PASSING, "gradients", 12),)


def test_a_gradient_that_another_layer_adds_to_waits_beside_them() -> None:
    assert passing((0, 2), (2,), NUMEL, 4) == (
        Allocation(PASSING, "gradients", 16),
        Allocation(waiting(0), "gradients", 24),
    )


def test_what_an_earlier_backward_began_is_not_allocated_again() -> None:
    assert passing((), (1,), NUMEL, 4) == ()
