"""A model as a list of sizes: layers, names, shapes, and what it refuses."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.models import listed
from zerosim.scenario import load_scenario, workload_of


def test_layers_and_their_parameters_are_read_from_text() -> None:
    made = listed("linear1: 256x128, 256; 512", tokens=2, micro_batches=3)
    assert [unit.name for unit in made.units] == ["linear1", "1"]
    assert [p.shape for p in made.units[0].parameters] == [(256, 128), (256,)]
    assert (made.n_params, made.tokens, made.micro_batches) == (256 * 128 + 256 + 512, 2, 3)


def test_a_layer_computes_with_all_its_elements_and_keeps_its_input() -> None:
    layer = listed("256x128, 256", tokens=2).layers[0]
    assert layer.forward_flops == 2 * (256 * 128 + 256) * 2
    assert layer.backward_flops == 2 * layer.forward_flops
    assert (layer.activations, layer.recompute_flops) == (2 * 128, 0)
    again = listed("256x128, 256", tokens=2, checkpointing="full").layers[0]
    assert again.recompute_flops == again.forward_flops


def test_the_issues_mlp_has_230400_elements() -> None:
    mlp = workload_of(load_scenario("mlp"))
    numels = [p.numel for unit in mlp.units for p in unit.parameters]
    assert numels == [32768, 256, 65536, 256, 131072, 512]
    assert mlp.n_params == 230400


@pytest.mark.parametrize("text", ["4x", "a", "0", "-3", "4,,4", "1.5"])
def test_a_size_is_a_number_or_a_shape(text: str) -> None:
    with pytest.raises(ScenarioError, match="write a size or a shape, like 256 or 256x128"):
        listed(text, tokens=1)


def test_layers_have_names_of_their_own() -> None:
    with pytest.raises(ScenarioError, match="give every layer a name of its own"):
        listed("a: 1; a: 2", tokens=1)


@pytest.mark.parametrize("text", ["", " ; "])
def test_a_model_has_a_layer(text: str) -> None:
    with pytest.raises(ScenarioError, match="0 layers"):
        listed(text, tokens=1)
