"""Workloads: units, layers, and the FLOPs a model is credited with."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.workload import Layer, Parameter, Unit, Workload

PAIR = (
    Unit("a", (Parameter("w", (2, 3)), Parameter("b", (2,)))),
    Unit("b", (Parameter("w", (4,)),)),
)


def layer(unit: int) -> Layer:
    return Layer("x", unit, 1, 2, 1)


def test_parameters_are_counted_over_all_units() -> None:
    assert Workload("w", PAIR, (layer(0), layer(1)), tokens=1).n_params == 12


def test_model_flops_are_6_per_parameter_and_token_and_attention_beside() -> None:
    workload = Workload("w", PAIR, (layer(0),), tokens=10, micro_batches=2, attention=(1, 4, 5))
    assert workload.model_flops() == 20 * (6 * 12 + 12 * 1 * 4 * 5)
    assert workload.model_flops(causal=True) == 20 * (6 * 12 + 6 * 1 * 4 * 5)


def test_uses_say_which_layers_compute_with_a_unit() -> None:
    workload = Workload("w", PAIR, (layer(0), layer(1), layer(0)), tokens=1)
    assert workload.uses() == ((0, 2), (1,))


def test_a_model_without_layers_is_refused() -> None:
    with pytest.raises(ScenarioError, match="workload 'w' has 0 layers: give at least one"):
        Workload("w", PAIR, (), tokens=1)


def test_a_layer_of_no_unit_is_refused() -> None:
    with pytest.raises(ScenarioError, match="layer 'x' names unit 2: there are 2"):
        Workload("w", PAIR, (layer(2),), tokens=1)
