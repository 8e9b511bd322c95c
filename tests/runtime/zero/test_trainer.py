"""A trainer of one rank does what plain torch does, bit by bit, and books what it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from zerosim.errors import InputError, RuntimeFailedError
from zerosim_runtime.optimizer import Settings
from zerosim_runtime.zero import Options, Stepped, shard

pytestmark = pytest.mark.usefixtures("alone")
SETTINGS = Settings(lr=0.1)
BOTH = pytest.mark.parametrize("stage", [1, 2])
Make = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
}


class Net(nn.Module):
    """A layer that can be dropped, one that is frozen, a weight that is tied."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(3, 5)
        self.dropped = nn.Linear(5, 5)
        self.frozen = nn.Linear(5, 5)
        self.frozen.requires_grad_(False)
        self.tied = nn.Linear(5, 3, bias=False)
        self.tied.weight = nn.Parameter(self.first.weight.detach().t().contiguous())
        self.again = nn.Linear(5, 3, bias=False)
        self.again.weight = self.tied.weight
        self.drop = False

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        middle = torch.tanh(self.first(inputs))
        if not self.drop:
            middle = middle + self.dropped(middle)
        middle = self.frozen(middle)
        out: torch.Tensor = self.tied(middle) + self.again(middle.square())
        return out


def loss_of(net: nn.Module, step: int, micro_batch: int = 0) -> torch.Tensor:
    inputs = torch.arange(6.0).view(2, 3) + step - 3 * micro_batch
    loss: torch.Tensor = net(inputs).square().mean()
    return loss


def equal(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@BOTH
@pytest.mark.parametrize("order", ["static", "dynamic"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_with_and_without_a_layer_are_those_of_torch(
    stage: int, order: str, optimizer: str
) -> None:
    plain, net = Net(), Net()
    stepper = OPTIMIZERS[optimizer](plain.parameters())
    options = Options(stage, None, optimizer, SETTINGS, bucket_bytes=40, bucket_order=order)
    with shard(net, options) as trainer:
        for step in range(6):
            plain.drop = net.drop = 2 <= step < 4
            stepper.zero_grad()
            loss_of(plain, step).backward()
            stepper.step()
            trainer.backward(loss_of(net, step))
            assert trainer.step() == Stepped(norm=None, skipped=False)

    assert equal(net, plain)
    assert trainer.owned["dropped.weight"].step == 4
    assert "again.weight" not in trainer.owned
    assert "frozen.weight" not in trainer.owned


@BOTH
def test_micro_batches_add_up_and_the_norm_is_clipped_as_torch_does_in_float64(
    stage: int,
) -> None:
    plain, net = Net().double(), Net().double()
    stepper = torch.optim.SGD(plain.parameters(), lr=0.1, foreach=False)
    options = Options(stage, None, "sgd", SETTINGS, clip_norm=0.5)
    with shard(net, options) as trainer:
        for step in range(3):
            stepper.zero_grad()
            for micro_batch in range(2):
                net.drop = plain.drop = micro_batch == 1
                (_double(plain, step, micro_batch) / 2).backward()
                trainer.backward(_double(net, step, micro_batch) / 2, last=micro_batch == 1)
            norm = nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
            stepper.step()
            assert trainer.step().norm == pytest.approx(norm.item(), rel=1e-12)

    for mine, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-12)


def _double(net: nn.Module, step: int, micro_batch: int) -> torch.Tensor:
    inputs = torch.arange(6.0, dtype=torch.float64).view(2, 3) + step - 3 * micro_batch
    loss: torch.Tensor = net(inputs).square().mean()
    return loss


@BOTH
def test_bfloat16_has_masters_that_keep_what_bfloat16_cannot_hold(stage: int) -> None:
    net = Net()
    first = net.first.weight.detach().clone()
    options = Options(stage, torch.bfloat16, "sgd", Settings(lr=1e-6))
    with shard(net, options) as trainer:
        master = trainer.owned["first.weight"].master
        assert torch.equal(master, first.view(-1))
        trainer.backward(loss_of(net, 0))
        trainer.step()

        assert net.first.weight.dtype is torch.bfloat16
        assert torch.equal(net.first.weight, first.bfloat16())
        assert not torch.equal(master, first.view(-1))


def test_float16_that_overflows_is_skipped_and_halves_the_scale() -> None:
    net = Net()
    options = Options(2, torch.float16, "sgd", SETTINGS, loss_scale=0, clip_norm=1.0)
    with shard(net, options) as trainer:
        before = trainer.whole()
        trainer.backward(loss_of(net, 0) * 1e6)
        assert trainer.step().skipped
        assert trainer.scale is not None
        assert trainer.scale.value == 32768
        assert all(torch.equal(before[name], now) for name, now in trainer.whole().items())
        trainer.backward(loss_of(net, 0) / 100)
        assert not trainer.step().skipped


def test_the_ledger_books_gradients_buckets_and_states() -> None:
    net = nn.Linear(3, 4, bias=False)
    with shard(net, Options(2, settings=SETTINGS)) as trainer:
        assert dict(trainer.ledger.booked.values()) == {
            "parameters": 48,
            "optimizer": 48,
        }
        trainer.backward(loss_of(net, 0))
        assert [(c.kind, c.nbytes) for c in trainer.ledger.changes] == [
            ("gradients", 48),
            ("buckets", 48),
            ("gradients", 48),
            ("gradients", -48),
        ]
        trainer.step()
        assert trainer.ledger.live == 48 + 2 * 48


def test_a_learning_rate_may_change_between_steps() -> None:
    net = nn.Linear(3, 1, bias=False)
    before = net.weight.detach().clone()
    with shard(net, Options(1, optimizer="sgd", settings=SETTINGS)) as trainer:
        trainer.settings = Settings(lr=0)
        trainer.backward(loss_of(net, 0))
        trainer.step()
    assert torch.equal(net.weight, before)


def test_a_closed_trainer_leaves_a_plain_module() -> None:
    net = Net()
    shard(net, Options(2, torch.bfloat16)).close()
    net.float()
    loss_of(net, 0).backward()
    assert net.first.weight.grad is not None


def test_a_closed_trainer_trains_no_more() -> None:
    net = Net()
    trainer = shard(net, Options(2))
    trainer.close()
    with pytest.raises(InputError, match="the trainer is closed: shard the module anew"):
        trainer.step()


def test_calls_out_of_turn_are_refused() -> None:
    net = Net()
    with shard(net, Options(2)) as trainer:
        with pytest.raises(InputError, match=r"step\(\) without gradients: call backward"):
            trainer.step()
        trainer.backward(loss_of(net, 0), last=False)
        with pytest.raises(InputError, match=r"step\(\) without gradients: call backward"):
            trainer.step()
        trainer.backward(loss_of(net, 0))
        with pytest.raises(InputError, match=r"call step\(\) first"):
            trainer.backward(loss_of(net, 0))
        with pytest.raises(InputError, match=r"save\(\) between backward\(\) and step\(\)"):
            trainer.save("nowhere")


def test_a_gradient_that_comes_twice_is_refused() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            for _ in range(2):
                inputs = checkpoint(self.layer, inputs, use_reentrant=True)
            return inputs

    net = Twice()
    inputs = torch.ones(2, 3, requires_grad=True)
    with (
        shard(net, Options(2)) as trainer,
        pytest.raises(RuntimeFailedError, match=r"'layer.\w+' came twice .* use_reentrant=False"),
    ):
        trainer.backward(net(inputs).sum())


def test_a_sparse_gradient_is_refused() -> None:
    net = nn.Embedding(3, 2, sparse=True)
    with (
        shard(net, Options(2)) as trainer,
        pytest.raises(RuntimeFailedError, match="the gradient of 'weight' is sparse: use a dense"),
    ):
        trainer.backward(net(torch.tensor([1])).sum())


def test_a_module_that_is_moved_after_it_was_sharded_is_refused() -> None:
    net = Net()
    with shard(net, Options(2)) as trainer:
        net.double()
        loss = net(torch.ones(2, 3, dtype=torch.float64)).sum()
        with pytest.raises(InputError, match=r"'first.weight' is no longer what was sharded: move"):
            trainer.backward(loss)


def test_modules_that_cannot_be_trained_are_refused() -> None:
    with pytest.raises(InputError, match="no parameter of the module requires a gradient"):
        shard(nn.Tanh())
    with pytest.raises(InputError, match=r"'weight' is torch.complex64: give real parameters"):
        shard(nn.Linear(1, 1, dtype=torch.complex64))
    spread = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, device="meta"))
    with pytest.raises(InputError, match="the parameters lie on cpu, meta: put the module on one"):
        shard(spread)


def test_an_error_inside_the_block_is_not_held_up_by_what_is_under_way() -> None:
    net = Net()
    with pytest.raises(ZeroDivisionError), shard(net, Options(2)) as trainer:
        trainer.backward(loss_of(net, 0) / (1 // 0))
    assert net.first.weight.grad is None
    trainer.close()


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_module_is_sharded_once_at_a_time(stage: int) -> None:
    net = nn.Linear(3, 2)
    with (
        shard(net, Options(stage=stage)),
        pytest.raises(InputError, match="sharded already: close its trainer first"),
    ):
        shard(net, Options(stage=stage))
    if stage < 3:
        shard(net, Options(stage=stage)).close()
    else:
        with pytest.raises(
            InputError, match=r"left the module's parameters in shards: build it anew"
        ):
            shard(net, Options(stage=stage))


def test_the_ledger_is_shown_in_bytes_by_kind_not_in_numbers() -> None:
    with shard(nn.Linear(3, 2), Options(stage=3, optimizer="sgd")) as trainer:
        assert trainer.ledger.by_kind() == {"parameters": 32}
        assert (
            repr(trainer.ledger)
            == "Memory(device=device(type='cpu'), poison=False, live=32, peak=32, resident=None)"
        )
