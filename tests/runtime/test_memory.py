"""The ledger books real bytes, refuses what the plan does not say, and frees without leaking."""

from __future__ import annotations

import pytest
import torch

from zerosim.errors import RuntimeFailedError
from zerosim.plan import Allocation
from zerosim_runtime.memory import Memory
from zerosim_runtime.records import Change

BUCKET = Allocation("bucket.0", "buckets", 40)


def _memory(*, poison: bool = False) -> Memory:
    ticks = iter(range(1, 100))
    return Memory(torch.device("cpu"), poison=poison, now=lambda: next(ticks))


def test_what_is_allocated_and_dropped_is_noted_in_order() -> None:
    memory = _memory()
    memory.new(BUCKET, 10, torch.float32)
    memory.drop("bucket.0")
    assert memory.changes == [Change(1, "buckets", 40), Change(2, "buckets", -40)]
    assert memory.tensors == {}


def test_a_tensor_of_another_size_than_planned_is_refused() -> None:
    with pytest.raises(RuntimeFailedError, match=r"'bucket\.0' takes 44 B, the plan says 40 B"):
        _memory().new(BUCKET, 11, torch.float32)


def test_the_same_key_twice_is_refused() -> None:
    memory = _memory()
    memory.new(BUCKET, 10, torch.float32)
    with pytest.raises(RuntimeFailedError, match=r"'bucket\.0' is allocated twice"):
        memory.new(BUCKET, 10, torch.float32)


def test_new_memory_is_poison_until_it_is_filled_if_asked_for() -> None:
    memory = _memory(poison=True)
    assert memory.new(BUCKET, 10, torch.float32).isnan().all()
    zeroed = memory.new(Allocation("gradient.0.0", "gradients", 8), 1, torch.float64, zero=True)
    assert zeroed.tolist() == [0.0]


def test_an_emptied_tensor_holds_nothing_and_its_views_come_back_with_it() -> None:
    memory = _memory(poison=True)
    flat = torch.arange(6.0)
    view = flat[2:5]
    gathered = Allocation("gathered.0", "gathered", 24)
    memory.hold(gathered, flat, 24)
    memory.empty("gathered.0")
    assert flat.untyped_storage().nbytes() == 0
    memory.refill(gathered, flat)
    assert view.isnan().all()
    flat.copy_(torch.arange(6.0) * 10)
    assert view.tolist() == [20.0, 30.0, 40.0]
    assert [change.nbytes for change in memory.changes] == [24, -24, 24]


def test_autograd_still_has_the_weight_after_it_was_freed_and_gathered_again() -> None:
    memory = _memory(poison=True)
    flat = torch.tensor([2.0, 3.0])
    weight = torch.nn.Parameter(flat.data.view(1, 2))
    gathered = Allocation("gathered.0", "gathered", 8)
    memory.hold(gathered, flat, 8)
    x = torch.ones(1, 2, requires_grad=True)
    y = torch.nn.functional.linear(x, weight)
    memory.empty("gathered.0")
    memory.refill(gathered, flat)
    flat.copy_(torch.tensor([2.0, 3.0]))
    torch.autograd.backward(y.sum())
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0, 3.0]]
