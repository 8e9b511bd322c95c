"""Real models compute with exactly the parameters of their units, and draw the same numbers anywhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own custom

from tests.runtime.cases import GPT, LLAMA, UNIFORM
from zerosim.scenario import Scenario, workload_of
from zerosim.workload import Parameter
from zerosim_runtime.model import Batch, Layer, Model, batch_of, initial, model_of

CPU = torch.device("cpu")


def _scenario(workload: dict[str, Any]) -> Scenario:
    return Scenario.from_dict({"name": "x", "workload": workload})


def _model(workload: dict[str, Any]) -> tuple[Scenario, Model]:
    scenario = _scenario(workload)
    units = workload_of(scenario).units
    parameters = [
        [nn.Parameter(initial(p, u, i, 0).view(p.shape)) for i, p in enumerate(unit.parameters)]
        for u, unit in enumerate(units)
    ]
    return scenario, model_of(workload_of(scenario), scenario.workload, parameters)


def _layer(model: Model, index: int) -> Layer:
    layer = model.layers[index]
    assert isinstance(layer, Layer)
    return layer


def _batch(scenario: Scenario, **place: int) -> Batch:
    chosen = {"seed": 1, "rank": 0, "step": 1, "micro_batch": 0} | place
    return batch_of(scenario.workload, torch.float64, CPU, **chosen)


@pytest.mark.parametrize(
    "workload", [UNIFORM, UNIFORM | {"bias": False}, GPT, LLAMA, GPT | {"tied": False}], ids=str
)
def test_every_parameter_of_the_workload_gets_a_gradient_and_there_are_no_others(
    workload: dict[str, Any],
) -> None:
    scenario, model = _model(workload)
    model(_batch(scenario)).backward()
    parameters = list(model.parameters())
    assert sum(p.numel() for p in parameters) == workload_of(scenario).n_params
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in parameters)


def test_a_uniform_layer_is_an_activation_and_a_linear() -> None:
    scenario, model = _model(UNIFORM | {"layers": 1})
    batch = _batch(scenario)
    weight, bias = (p.detach() for p in model.parameters())
    expected = F.mse_loss(torch.tanh(batch.inputs) @ weight.T + bias, batch.targets)
    assert torch.allclose(model(batch), expected)


def test_a_gpt_block_is_torchs_own_encoder_layer_with_a_causal_mask() -> None:
    _, model = _model(GPT | {"layers": 1})
    block = model.layers[1]
    ours = {name: p.detach() for name, p in block.named_parameters()}
    theirs = nn.TransformerEncoderLayer(
        18, 3, 72, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).double()
    # Ours packs heads as q of all heads, then k, then v, each 18 wide: the same as torch's.
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": ours["attention_qkv_weight"],
            "self_attn.in_proj_bias": ours["attention_qkv_bias"],
            "self_attn.out_proj.weight": ours["attention_out_weight"],
            "self_attn.out_proj.bias": ours["attention_out_bias"],
            "linear1.weight": ours["mlp_up_weight"],
            "linear1.bias": ours["mlp_up_bias"],
            "linear2.weight": ours["mlp_down_weight"],
            "linear2.bias": ours["mlp_down_bias"],
            "norm1.weight": ours["norm1_weight"],
            "norm1.bias": ours["norm1_bias"],
            "norm2.weight": ours["norm2_weight"],
            "norm2.bias": ours["norm2_bias"],
        }
    )
    x = torch.randn(2, 5, 18, dtype=torch.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    assert torch.allclose(block(x), theirs(x, src_mask=mask), atol=1e-12)


def test_a_llama_block_sees_no_later_token() -> None:
    _, model = _model(LLAMA)
    x = torch.randn(1, 5, 18, dtype=torch.float64)
    changed = x.clone()
    changed[:, 3:] += 1
    before, after = model.layers[1](x), model.layers[1](changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


def test_rotary_positions_make_scores_depend_on_the_distance_alone() -> None:
    rotate = model_of.__globals__["_rotated"]
    vector = torch.randn(4, dtype=torch.float64)
    rows = rotate(vector.expand(1, 1, 6, 4))[0, 0]
    scores = rows @ rows.T
    assert torch.allclose(scores.diagonal(1), scores[0, 1].expand(5))
    assert torch.allclose(scores.diagonal(3), scores[0, 3].expand(3))
    assert not torch.allclose(scores[0, 1], scores[0, 3])


def _names(model: Model, index: int) -> list[str]:
    return [name for name, _ in model.layers[index].named_parameters()]


def test_tied_embeddings_score_with_the_embedding() -> None:
    _, tied = _model(GPT)
    _, untied = _model(GPT | {"tied": False})
    assert _names(tied, -1) == ["norm_weight", "norm_bias", "embedding_weight"]
    assert _names(untied, -1) == ["norm_weight", "norm_bias", "head_weight"]
    assert _layer(tied, 0).needed("embedding.weight") is _layer(tied, -1).needed("embedding.weight")


def test_a_layer_has_the_parameters_it_computes_with_and_no_others() -> None:
    _, model = _model(GPT | {"tied": False})
    assert _names(model, 0) == ["embedding_weight", "position_weight"]


@pytest.mark.parametrize("place", [{"seed": 2}, {"rank": 1}, {"step": 2}, {"micro_batch": 1}])
def test_batches_differ_by_seed_rank_step_and_micro_batch(place: dict[str, int]) -> None:
    scenario = _scenario(UNIFORM)
    assert torch.equal(_batch(scenario).inputs, _batch(scenario).inputs)
    assert not torch.equal(_batch(scenario).inputs, _batch(scenario, **place).inputs)


def test_the_target_of_a_token_is_the_next_one() -> None:
    batch = _batch(_scenario(GPT))
    assert batch.inputs.shape == (2, 5)
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert 0 <= int(batch.inputs.min()) <= int(batch.inputs.max()) < 37


def test_first_values_are_ones_for_norms_zeros_for_biases_and_small_for_matrices() -> None:
    assert initial(Parameter("norm.weight", (3,)), 0, 0, 0).tolist() == [1, 1, 1]
    assert initial(Parameter("mlp.bias", (2,)), 0, 0, 0).tolist() == [0, 0]
    matrix = initial(Parameter("mlp.weight", (400, 100)), 0, 0, 0)
    assert matrix.std().item() == pytest.approx(0.1, rel=0.05)
    assert not torch.equal(matrix, initial(Parameter("mlp.weight", (400, 100)), 1, 0, 0))
