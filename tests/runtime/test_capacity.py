"""Plans that this machine could not hold are refused before anything starts."""

from __future__ import annotations

import pytest

from tests.runtime.written import lesson
from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.plan import Allocation, Axis, Op, Plan
from zerosim.scenario import plan_of
from zerosim_runtime.capacity import available_bytes, check_memory, peak_bytes


def _plan() -> Plan:
    take = Op(0, "F0", Kind.FORWARD, "compute", allocates=(Allocation("a", "activations", 30),))
    more = Op(
        1,
        "F1",
        Kind.FORWARD,
        "compute",
        allocates=(Allocation("b", "activations", 5),),
        frees=("a",),
    )
    give = Op(2, "B0", Kind.BACKWARD, "compute", frees=("b",))
    held = (Allocation("parameters", "parameters", 100),)
    return Plan("tiny", 2, (take, more, give), (Axis("world", 2),), held)


def test_the_peak_counts_an_op_with_what_it_frees() -> None:
    assert peak_bytes(_plan()) == 135


def test_a_plan_that_fits_is_let_through() -> None:
    check_memory(_plan(), 270)
    check_memory(_plan(), None)


def test_a_plan_that_does_not_fit_is_refused_with_both_numbers() -> None:
    with pytest.raises(ScenarioError, match=r"2 ranks .* need 270 B, .* has 269 B free: lower"):
        check_memory(_plan(), 269)


def test_this_machine_holds_the_lesson() -> None:
    available = available_bytes()
    assert available is not None
    assert 0 < peak_bytes(plan_of(lesson())) < available
