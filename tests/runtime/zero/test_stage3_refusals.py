"""What stage 3 refuses, each with a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from tests.runtime.zero.stage3_models import DIM, Net
from tests.runtime.zero.test_stage3_alone import WORDS, _loss, _net, _sharded, _trained
from zerosim.errors import InputError, RuntimeFailedError

pytestmark = pytest.mark.usefixtures("alone")


def test_a_plain_backward_is_refused() -> None:
    net = _net()
    with _sharded(net) as trainer:
        with pytest.raises(InputError, match=r"call trainer\.backward\(loss\)"):
            _loss(net).backward()
        trainer.backward(_loss(net))
        trainer.step()


def test_a_second_backward_through_one_forward_is_refused() -> None:
    net = _net()
    with _sharded(net) as trainer:
        loss = _loss(net)
        trainer.backward(loss, last=False)
        with pytest.raises((InputError, RuntimeError), match=r"compute the loss again|second time"):
            trainer.backward(loss)
        trainer.backward(_loss(net))
        trainer.step()


def test_a_backward_after_the_step_that_changed_the_weights_is_refused() -> None:
    net = _net()
    with _sharded(net) as trainer:
        old = _loss(net)
        trainer.backward(_loss(net))
        trainer.step()
        with pytest.raises(InputError, match="compute the loss again"):
            trainer.backward(old)


def test_a_backward_that_failed_half_way_is_not_gone_on_from() -> None:
    net = _net()
    with _sharded(net) as trainer:
        net.emb.weight.register_hook(lambda _: 1 / 0)  # the root is reached last
        with pytest.raises(ZeroDivisionError):
            trainer.backward(_loss(net))
        with pytest.raises(RuntimeFailedError, match="shard the module anew"):
            _loss(net)


@pytest.mark.parametrize(
    "use",
    [
        lambda net: net.blocks[0].up.weight + 1,
        lambda net: net.blocks[0].up(torch.ones(DIM)),
        lambda net: net.state_dict(),
        lambda net: net.double(),
        lambda net: net.blocks[0].up.weight.requires_grad_(False),
    ],
)
def test_a_parameter_that_is_not_gathered_refuses_to_be_used(use: Any) -> None:
    net = _net()
    with (
        _sharded(net),
        pytest.raises(RuntimeFailedError, match=r"parameter '\S+' of unit '\S*' is not gathered"),
    ):
        use(net)


def test_a_parameter_that_is_not_gathered_tells_its_shape() -> None:
    net = _net()
    n_params = sum(p.numel() for p in net.parameters())
    with _sharded(net):
        weight = net.get_parameter("blocks.0.up.weight")
        assert (weight.shape, weight.dtype, weight.ndim) == ((2 * DIM, DIM), torch.float32, 2)
        assert isinstance(weight, nn.Parameter)
        assert repr(weight) == "<parameter 'blocks.0.up.weight' of unit 'blocks.0', not gathered>"
        assert sum(p.numel() for p in net.parameters()) == n_params
        assert "Linear(in_features=7, out_features=14, bias=True)" in repr(net)


@dataclass
class Result:
    scores: torch.Tensor


def test_a_dataclass_is_looked_into_and_another_object_is_refused() -> None:
    class Wrapped(Net):
        made: Any = Result

        def forward(self, words: torch.Tensor) -> Any:
            return self.made(super().forward(words))

    class Opaque:
        def __init__(self, scores: torch.Tensor) -> None:
            self.scores = scores

    _trained(Wrapped(), lambda net: net(WORDS).scores.square().mean())
    refused = Wrapped()
    refused.made = Opaque
    with _sharded(refused), pytest.raises(InputError, match="unit '' returns a Opaque"):
        refused(WORDS)


def test_a_unit_of_two_dtypes_is_refused() -> None:
    net = _net()
    net.blocks[1].double()
    with _sharded(net):
        pass
    net = _net()
    net.head.double()
    with (
        pytest.raises(InputError, match="unit '' has parameters in float32 and float64"),
        _sharded(net),
    ):
        pass


def test_a_unit_that_changes_its_input_in_place_is_refused_by_autograd() -> None:
    net = nn.Sequential(
        nn.Linear(DIM, DIM), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(DIM, 1))
    )
    with (
        _sharded(net),
        pytest.raises(RuntimeError, match="is a view and is being modified inplace"),
    ):
        net(torch.ones(2, DIM))
