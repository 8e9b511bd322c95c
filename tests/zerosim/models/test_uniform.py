"""The uniform model: small enough to count by hand."""

from __future__ import annotations

from zerosim.models import uniform


def test_three_layers_of_four_have_20_parameters_each() -> None:
    workload = uniform(layers=3, hidden=4, tokens=5)
    assert [unit.numel for unit in workload.units] == [20, 20, 20]
    assert workload.n_params == 60


def test_a_forward_is_2_flops_a_weight_and_token_and_a_backward_twice_that() -> None:
    layer = uniform(layers=1, hidden=4, tokens=5).layers[0]
    assert (layer.forward_flops, layer.backward_flops) == (160, 320)


def test_a_layer_keeps_its_input() -> None:
    assert uniform(layers=1, hidden=4, tokens=5).layers[0].activations == 20


def test_every_layer_has_a_unit_of_its_own() -> None:
    assert uniform(layers=3, hidden=4, tokens=5).uses() == ((0,), (1,), (2,))


def test_without_a_bias_a_layer_is_its_matrix() -> None:
    workload = uniform(layers=3, hidden=512, tokens=5, bias=False)
    assert [unit.numel for unit in workload.units] == [262144, 262144, 262144]
