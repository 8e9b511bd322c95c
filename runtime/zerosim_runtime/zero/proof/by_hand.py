"""Mixed precision written out by hand: one process computes what all ranks would, with float32 masters.

It shares no code with the library. Ranks are a loop; each computes in 16 bits on its own batch, its
gradients are divided by their number in 16 bits and summed, and torch.optim steps float32 masters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from zerosim_runtime.zero.proof.cases import Case
from zerosim_runtime.zero.proof.models import Module
from zerosim_runtime.zero.proof.plain import (
    Trained,
    batches,
    clip,
    drop_blocks,
    prepared,
    torch_optimizer,
)

Pair = tuple[torch.Tensor, torch.Tensor]
_GROWTH = 2.0
_PATIENCE = 2000


@dataclass(slots=True)
class Scale:
    """Loss scaling as torch.amp's GradScaler has it: halved at an overflow, doubled after 2000 steps."""

    value: float
    dynamic: bool
    good: int = 0

    def learn(self, *, finite: bool) -> None:
        """What the next step is scaled by."""
        if not self.dynamic:
            return
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.value /= _GROWTH
        elif self.good == _PATIENCE:
            self.value, self.good = self.value * _GROWTH, 0


@dataclass(slots=True)
class ByHand:
    """A model in 16 bits, a float32 master of every trained parameter, and torch's optimizer of these.

    `losses` by step and rank; `seen` are those of the step's micro-batches, by rank.
    """

    model: Module
    masters: dict[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    scale: Scale
    losses: list[list[float]] = field(default_factory=list)
    seen: list[list[torch.Tensor]] = field(default_factory=list)


def train_by_hand(
    case: Case,
    dtype: torch.dtype,
    optimizer: str,
    steps: int,
    *,
    n_ranks: int,
    scale: Scale,
    each: bool,
) -> list[Trained]:
    """What every rank of `n_ranks` should come to; `each` as in `train_plainly`."""
    wide = prepared(case, torch.float32)
    masters = {
        name: nn.Parameter(parameter.detach().clone())
        for name, parameter in wide.named_parameters()
        if parameter.requires_grad
    }
    hand = ByHand(
        model=wide.to(dtype),
        masters=masters,
        optimizer=torch_optimizer(optimizer, masters.values()),
        scale=scale,
    )
    for step in range(1, steps + 1):
        drop_blocks(case, hand.model, step)
        hand.seen = [[] for _ in range(n_ranks)]
        of_step = [batches(case, hand.model, dtype, rank, step) for rank in range(n_ranks)]
        groups = [list(group) for group in zip(*of_step, strict=True)] if each else []
        several = [[[pair] for pair in group] for group in groups] or [of_step]
        sums: dict[str, torch.Tensor] = {}
        for by_rank in several:
            for name, mean in _reduced(case, hand, by_rank).items():
                sums[name] = sums[name] + mean if name in sums else mean
        hand.losses.append([torch.stack(losses).mean().item() for losses in hand.seen])
        _step(hand, sums, case.clip)
    ends = {name: parameter.detach() for name, parameter in hand.model.named_parameters()}
    return [Trained(tuple(row[rank] for row in hand.losses), ends) for rank in range(n_ranks)]


def _reduced(case: Case, hand: ByHand, by_rank: list[list[Pair]]) -> dict[str, torch.Tensor]:
    """The mean gradients over all ranks, in 16 bits and still scaled; none where no rank has one."""
    total: dict[str, torch.Tensor] = {}
    for rank, pairs in enumerate(by_rank):
        hand.model.zero_grad(set_to_none=True)
        for pair in pairs:
            loss: torch.Tensor = hand.model(*pair)
            torch.autograd.backward(loss / case.micro_batches * hand.scale.value)
            hand.seen[rank].append(loss.detach())
        for name, parameter in hand.model.named_parameters():
            if parameter.grad is not None:
                share = parameter.grad / len(by_rank)
                total[name] = total[name] + share if name in total else share
    return total


def _step(hand: ByHand, gradients: dict[str, torch.Tensor], most: float | None) -> None:
    for name, master in hand.masters.items():
        gradient = gradients.get(name)
        master.grad = None if gradient is None else gradient.float() / hand.scale.value
    have = [master for master in hand.masters.values() if master.grad is not None]
    finite = all(bool(master.grad.isfinite().all()) for master in have if master.grad is not None)
    if finite:
        if most is not None:
            clip(have, most, torch.float32)
        hand.optimizer.step()
        with torch.no_grad():
            for name, parameter in hand.model.named_parameters():
                if name in hand.masters:
                    parameter.copy_(hand.masters[name])
    hand.scale.learn(finite=finite)
