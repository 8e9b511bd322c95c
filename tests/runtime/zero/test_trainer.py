"""A trainer of one rank does what plain torch does, bit by bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from zerosim.errors import InputError
from zerosim_runtime.optimizer import Settings
from zerosim_runtime.zero import Options, shard

pytestmark = pytest.mark.usefixtures("alone")
SETTINGS = Settings(lr=0.1)


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def _loss(net: nn.Module, step: int) -> torch.Tensor:
    inputs = torch.arange(6.0).view(2, 3) + step
    loss: torch.Tensor = net(inputs).square().mean()
    return loss


@pytest.mark.parametrize("stage", [1, 2])
def test_three_steps_of_adamw_are_those_of_torch(stage: int) -> None:
    plain, net = _net(), _net()
    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.1, foreach=False)
    with shard(net, Options(stage=stage, settings=SETTINGS)) as trainer:
        for step in range(3):
            optimizer.zero_grad()
            _loss(plain, step).backward()
            optimizer.step()
            trainer.backward(_loss(net, step))
            trainer.step()

    for mine, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_step_without_gradients_is_refused() -> None:
    with (
        shard(_net(), Options(stage=2)) as trainer,
        pytest.raises(InputError, match="call backward"),
    ):
        trainer.step()
