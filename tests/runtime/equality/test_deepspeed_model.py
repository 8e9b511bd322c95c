"""The model that DeepSpeed is observed with: modules mark when they run, parameters are as planned."""

from __future__ import annotations

import pytest
import torch

from zerosim.scenario import Scenario, workload_of
from zerosim.scenario.sections import WorkloadSection
from zerosim_runtime.equality.deepspeed_model import Model, Shape, batch
from zerosim_runtime.equality.small_models import GPT, UNIFORM
from zerosim_runtime.equality.watch import Record

SHORT = {"forward": "F", "backward": "B", "recompute": "R"}
ONE_BLOCK = GPT | {"layers": 1}


def trained(workload: dict[str, object], shape: Shape) -> tuple[Model, str]:
    """A model after one forward and backward, and its markers."""
    section, record = WorkloadSection(**workload), Record()  # type: ignore[arg-type] # a literal above
    model = Model(section, shape, record)
    torch.autograd.backward(model(*batch(section, shape, torch.float32)))
    return model, " ".join(SHORT[row.kind] + row.unit for row in record.seen)


def test_the_modules_of_a_block_run_in_order_and_back() -> None:
    _, order = trained(ONE_BLOCK, Shape())
    forward = (
        "Femb.embedding Femb.position F0.norm1 F0.attention.qkv F0.attention.out F0.norm2 "
        "F0.mlp.up F0.mlp.down Fhead.norm Fhead.head"
    )
    backward = " ".join(word.replace("F", "B", 1) for word in reversed(forward.split()))
    assert order == f"{forward} {backward}"


@pytest.mark.parametrize("kind", ["reentrant", "non-reentrant"])
def test_a_checkpointed_layer_runs_again_before_its_backward(kind: str) -> None:
    _, order = trained(UNIFORM, Shape(input_grad=True, checkpointing=kind))
    assert order == "F0 F1 F2 R2 B2 R1 B1 R0 B0"


@pytest.mark.parametrize("workload", [UNIFORM, GPT, GPT | {"tied": True}])
def test_parameters_are_those_of_the_workload(workload: dict[str, object]) -> None:
    model, _ = trained(workload, Shape())
    planned = workload_of(Scenario.from_dict({"name": "same", "workload": workload}))
    numels = sorted(p.numel for unit in planned.units for p in unit.parameters)
    assert sorted(p.numel() for p in model.parameters()) == numels


def test_biases_can_be_left_out() -> None:
    model, _ = trained(UNIFORM, Shape(bias=False))
    assert [p.numel() for p in model.parameters()] == [32 * 32] * 3
