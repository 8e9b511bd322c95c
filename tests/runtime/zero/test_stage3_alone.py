"""What stage 3 trains on one rank as plain torch does, however odd the module or its loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from tests.runtime.zero.stage3_models import DIM, Block, Net
from zerosim_runtime.optimizer import Settings
from zerosim_runtime.zero import Options, Trainer, shard

pytestmark = pytest.mark.usefixtures("alone")
WORDS = torch.arange(12).view(2, 6)


def _net(**choices: Any) -> Net:
    torch.manual_seed(0)
    return Net(**choices)


@contextmanager
def _sharded(module: nn.Module, units: tuple[str, ...] | None = None) -> Iterator[Trainer]:
    with shard(module, Options(poison=True, settings=Settings(lr=0.1)), units) as trainer:
        yield trainer


def _gathered(trainer: Trainer) -> set[str]:
    return {key for key in trainer.ledger.booked if key.startswith(("gathered", "rows"))}


def _loss(module: nn.Module) -> torch.Tensor:
    loss: torch.Tensor = module(WORDS).square().mean()
    return loss


def _trained(module: nn.Module, losses: Any, units: tuple[str, ...] | None = None) -> None:
    """Both ways of training take the same losses of a module; the parameters must be the same."""
    torch.manual_seed(1)
    plain = type(module)()
    plain.load_state_dict(module.state_dict())
    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.1, foreach=False)
    with _sharded(module, units) as trainer:
        for _ in range(3):
            optimizer.zero_grad()
            losses(plain).backward()
            optimizer.step()
            trainer.backward(losses(module))
            trainer.step()
            assert not _gathered(trainer)
        whole = trainer.whole()
    for name, parameter in plain.named_parameters():
        assert torch.equal(whole[name], parameter), name


def test_two_forwards_and_one_backward() -> None:
    _trained(_net(), lambda net: _loss(net) + net(WORDS.flip(0)).abs().mean())


def test_a_penalty_on_parameters_of_the_root() -> None:
    _trained(_net(), lambda net: _loss(net) + net.head.weight.square().sum())


def test_a_loss_under_autocast() -> None:
    def loss(net: nn.Module) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return _loss(net).float()

    _trained(_net(), loss)


def test_transformer_layers_of_torch() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(12, 8)
            layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
            self.memory = nn.LSTM(8, 8, batch_first=True)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.memory(self.encoder(self.words(words)))[0]
            return out

    units = ("words", "memory", *(f"encoder.layers.{i}" for i in range(3)))
    _trained(Encoder(), _loss, units)


def test_a_loss_that_a_unit_leaves_in_an_attribute() -> None:
    class Leaving(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = super().forward(x)
            self.aside = self.up(out).square().mean()
            return out

    class Mixed(Net):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Leaving() for _ in range(3))

    def loss(net: nn.Module) -> torch.Tensor:
        first = _loss(net)
        asides = [block.aside for block in net.blocks]  # type: ignore[union-attr] # a plain attribute
        return torch.stack([first, *asides]).sum()

    _trained(Mixed(), loss)


def test_selective_checkpointing() -> None:
    def keep() -> Any:
        return create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])

    class Selective(Net):
        def __init__(self) -> None:
            def around(blocks: Any, x: torch.Tensor) -> torch.Tensor:
                for block in blocks:
                    x = checkpoint(block, x, use_reentrant=False, context_fn=keep)
                return x

            super().__init__(around=around)

    _trained(Selective(), _loss)


def test_a_convolution_net_with_batch_norm_and_sequences() -> None:
    class Pictures(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(1, 3, 2)
            self.body = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Conv2d(3, 2, 1))
            self.head = nn.Linear(2, 2)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            x = self.body(self.stem(words[:, None, :, None].float().expand(-1, -1, -1, 3)))
            out: torch.Tensor = self.head(x.mean((2, 3)))
            return out

    _trained(Pictures(), _loss)


def test_a_forward_that_failed_leaves_nothing_behind() -> None:
    def failing(net: nn.Module) -> torch.Tensor:
        whole = _loss(net)
        del whole
        plain, net.blocks[2].forward = net.blocks[2].forward, _fail  # type: ignore[index, union-attr] # planted
        with pytest.raises(ZeroDivisionError):
            _loss(net)
        net.blocks[2].forward = plain  # type: ignore[index, union-attr] # mended
        return _loss(net)

    _trained(_net(), failing)


def _fail(*_: object) -> None:
    raise ZeroDivisionError


def test_a_forward_for_inference_gathers_and_frees() -> None:
    net = _net()
    with torch.no_grad():
        plain = net(WORDS)
    with _sharded(net) as trainer:
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                assert torch.equal(net(WORDS), plain)
            assert not _gathered(trainer)
        trainer.backward(_loss(net))
        trainer.step()


def test_a_call_of_a_unit_alone_gathers_it() -> None:
    net, x = _net(), torch.ones(2, DIM)
    plain = net.blocks[1](x)
    with _sharded(net) as trainer:
        assert torch.equal(net.blocks[1](x), plain)
        assert not _gathered(trainer)


def test_the_weights_that_compute_are_the_weights_that_are_stepped() -> None:
    with _sharded(_net()) as trainer:
        for owned in trainer.owned.values():
            assert owned.master.data_ptr() == owned.weight.data_ptr()
        kinds = {key: kind for key, (kind, _) in trainer.ledger.booked.items()}
        assert set(kinds.values()) == {"parameters", "optimizer"}
