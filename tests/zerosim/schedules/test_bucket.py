"""What the schedules share: how parameters are cut into buckets."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.schedules.bucket import buckets
from zerosim.schedules.layers import forward_order, gradient_order
from zerosim.workload import Layer, Parameter, Unit, Workload

MIB = 2**20


def of_layers(*sizes: int) -> Workload:
    """A layer a size, each a unit of one parameter."""
    return Workload(
        "w",
        tuple(Unit(str(i), (Parameter("p", (n,)),)) for i, n in enumerate(sizes)),
        tuple(Layer(str(i), i, 1, 1, 1) for i in range(len(sizes))),
        tokens=1,
    )


def cut(workload: Workload, cap_bytes: int | None, n_ranks: int = 1) -> list[tuple[str, int]]:
    order = gradient_order(workload)
    made = buckets(workload, order, n_ranks=n_ranks, element_bytes=4, cap_bytes=cap_bytes)
    return [(bucket.label, bucket.elements) for bucket in made]


def test_without_a_cap_every_unit_is_a_bucket_last_unit_first() -> None:
    assert cut(of_layers(1, 2, 3), None) == [("2", 3), ("1", 2), ("0", 1)]


def test_a_bucket_closes_when_it_reaches_or_passes_its_cap() -> None:
    # Check case D23: torch's overshoot rule, layers of 20 MiB and a cap of 25 MiB.
    layers = of_layers(*[5 * MIB] * 4)
    assert [n * 4 // MIB for _, n in cut(layers, 25 * MIB)] == [40, 40]
    assert cut(layers, 20 * MIB) == [(str(i), 5 * MIB) for i in (3, 2, 1, 0)]


@pytest.mark.parametrize("cap", [0, -1])
def test_a_cap_below_one_is_refused(cap: int) -> None:
    with pytest.raises(ScenarioError, match=rf"schedule\.bucket_bytes is {cap}: give at least 1"):
        cut(of_layers(1, 2), cap)


def test_what_is_left_is_the_last_bucket() -> None:
    assert cut(of_layers(4, 4, 4), 32) == [("2-1", 8), ("0", 4)]


def test_a_cap_cuts_within_a_unit_between_parameters() -> None:
    unit = Unit("0", (Parameter("first", (3,)), Parameter("last", (5,))))
    workload = Workload("w", (unit,), (Layer("0", 0, 1, 1, 1),), tokens=1)
    assert cut(workload, 20) == [("0", 5), ("0", 3)]


def test_parameters_are_padded_to_divide_by_the_ranks() -> None:
    assert cut(of_layers(5, 6), None, n_ranks=4) == [("1", 8), ("0", 8)]


def test_a_unit_used_first_and_last_has_its_gradients_last() -> None:
    units = tuple(Unit(name, (Parameter("p", (1,)),)) for name in ("root", "a", "b"))
    layers = tuple(Layer(str(i), unit, 1, 1, 1) for i, unit in enumerate((0, 1, 2, 0)))
    workload = Workload("w", units, layers, tokens=1)
    assert gradient_order(workload) == (2, 1, 0)
    assert forward_order(workload) == (0, 1, 2)


@pytest.mark.parametrize("cap_bytes", [1, 10, 100, None])
def test_no_parameter_is_lost_whatever_the_cap(cap_bytes: int | None) -> None:
    assert sum(n for _, n in cut(of_layers(7, 11, 13), cap_bytes)) == 31
