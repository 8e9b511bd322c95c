"""The sharded optimizer: what a rank remembers of the rows it owns, and how it steps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from zerosim.plan import Allocation
from zerosim_runtime.memory import Memory
from zerosim_runtime.optimizer import RULES, SINGLE, Settings
from zerosim_runtime.zero.stage import Share


@dataclass(slots=True)
class Owned:
    """A rank's part of one parameter: p32 ↔ p, and what the optimizer remembers.

    `weight` computes (p); `master` is stepped (p32). They are the same memory unless `weight` is
    narrower than float32. `step` counts the updates of this parameter, which layer drop can leave out.
    """

    weight: torch.Tensor
    master: torch.Tensor
    moments: tuple[torch.Tensor, ...]
    step: int = 0


def own(
    weights: Mapping[str, torch.Tensor],
    shares: Mapping[str, Share],
    originals: Mapping[str, torch.Tensor],
    optimizer: str,
    memory: Memory,
) -> dict[str, Owned]:
    """First states, by parameter: zero moments, masters cut from the whole `originals`.

    All states of a dtype lie in one flat tensor each, padded as rows are.
    """
    n_moments = RULES[optimizer][1]
    owned: dict[str, Owned] = {}
    for dtype in dict.fromkeys(weight.dtype for weight in weights.values()):
        several = {name: w for name, w in weights.items() if w.dtype is dtype}
        narrow = dtype.itemsize < SINGLE
        held = torch.float32 if narrow else dtype
        elements = sum(shares[name].row for name in several)
        flat = [
            memory.new(
                Allocation(f"optimizer.{dtype}.{i}", "optimizer", elements * held.itemsize),
                elements,
                held,
                zero=True,
            )
            for i in range(n_moments + narrow)
        ]
        start = 0
        for name, weight in several.items():
            pieces = tuple(state[start : start + weight.numel()] for state in flat)
            start += shares[name].row
            if narrow:
                share = shares[name]
                row = originals[name].reshape(-1)[share.start : share.end]
                pieces[0][: row.numel()].copy_(row)
            master = pieces[0] if narrow else weight
            owned[name] = Owned(weight, master, pieces[narrow:])
    return {name: owned[name] for name in weights}


def update(owned: Owned, gradient: torch.Tensor, optimizer: str, settings: Settings) -> None:
    """Step a parameter's row by its mean gradient, which has the master's dtype."""
    owned.step += 1
    rule, _ = RULES[optimizer]
    rule(owned.master, gradient, owned.moments, owned.step, settings)
    if owned.master is not owned.weight:
        owned.weight.copy_(owned.master)
