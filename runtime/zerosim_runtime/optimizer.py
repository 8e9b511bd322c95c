"""Sharded optimizers: each rank steps the rows it owns, element by element as torch.optim would."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from zerosim.errors import UnknownNameError
from zerosim.numerics import Numerics
from zerosim.plan import Allocation
from zerosim_runtime.layout import Piece
from zerosim_runtime.weights import Weights

SINGLE: Final = 4
"""Bytes of a float32: narrower parameters get a float32 master copy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyperparameters; those an optimizer does not have are ignored."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2
    momentum: float = 0.9


@dataclass(frozen=True, slots=True)
class Owned:
    """What one rank owns of a parameter, all flat and equally long.

    `master` is stepped, `weight` is what computes and travels; they are the same memory unless
    `weight` is narrower than float32 and has a copy.
    """

    piece: Piece
    master: torch.Tensor
    weight: torch.Tensor
    moments: tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True)
class Optimizer:
    """The states of a rank, and the rule that steps them."""

    name: str
    settings: Settings
    states: tuple[torch.Tensor, ...]
    owned: tuple[Owned, ...]

    @property
    def allocation(self) -> Allocation:
        """What the states take throughout, as the plan names it."""
        nbytes = sum(state.untyped_storage().nbytes() for state in self.states)
        return Allocation("optimizer", "optimizer", nbytes)


def make_optimizer(weights: Weights, numerics: Numerics, settings: Settings) -> Optimizer:
    """States for the rows this rank owns, zero moments first. Raises UnknownNameError."""
    if numerics.optimizer not in RULES:
        raise UnknownNameError("optimizer", numerics.optimizer, RULES)
    _, n_moments = RULES[numerics.optimizer]
    pieces = [piece for pieces in weights.layout.pieces for piece in pieces]
    sample = weights.own(pieces[0])
    narrow = numerics.master and numerics.param_bytes < SINGLE
    states = tuple(
        torch.zeros(
            sum(piece.row for piece in pieces),
            dtype=torch.float32 if narrow else sample.dtype,
            device=sample.device,
        )
        for _ in range(n_moments + narrow)
    )
    owned: list[Owned] = []
    offset = 0
    for piece in pieces:
        weight = weights.own(piece)
        slices = tuple(state[offset : offset + weight.numel()] for state in states)
        offset += piece.row
        master = slices[0].copy_(weight) if narrow else weight
        owned.append(Owned(piece, master, weight, slices[narrow:]))
    return Optimizer(numerics.optimizer, settings, states, tuple(owned))


def update(optimizer: Optimizer, owned: Owned, gradient: torch.Tensor, step: int) -> None:
    """Step one parameter's rows by their mean gradient; `step` counts from 1."""
    rule, _ = RULES[optimizer.name]
    gradient = gradient[: owned.master.numel()].to(owned.master.dtype)
    rule(owned.master, gradient, owned.moments, step, optimizer.settings)
    if owned.master is not owned.weight:
        owned.weight.copy_(owned.master)


Moments = tuple[torch.Tensor, ...]
"""What an optimizer remembers of a parameter, in the order of its rule."""
Rule = Callable[[torch.Tensor, torch.Tensor, Moments, int, Settings], None]


def _sgd(weight: torch.Tensor, gradient: torch.Tensor, _: Moments, __: int, s: Settings) -> None:
    weight.add_(gradient, alpha=-s.lr)


def _momentum(
    weight: torch.Tensor, gradient: torch.Tensor, moments: Moments, step: int, s: Settings
) -> None:
    (velocity,) = moments
    if step == 1:
        velocity.copy_(gradient)
    else:
        velocity.mul_(s.momentum).add_(gradient)
    weight.add_(velocity, alpha=-s.lr)


def _adam(
    weight: torch.Tensor, gradient: torch.Tensor, moments: Moments, step: int, s: Settings
) -> None:
    first, second = moments
    first.lerp_(gradient, 1 - s.betas[0])
    second.mul_(s.betas[1]).addcmul_(gradient, gradient, value=1 - s.betas[1])
    root = math.sqrt(1 - s.betas[1] ** step)
    spread = (second.sqrt() / root).add_(s.eps)
    weight.addcdiv_(first, spread, value=-s.lr / (1 - s.betas[0] ** step))


def _adamw(
    weight: torch.Tensor, gradient: torch.Tensor, moments: Moments, step: int, s: Settings
) -> None:
    weight.mul_(1 - s.lr * s.weight_decay)
    _adam(weight, gradient, moments, step, s)


RULES: Final[dict[str, tuple[Rule, int]]] = {
    "sgd": (_sgd, 0),
    "momentum": (_momentum, 1),
    "adam": (_adam, 2),
    "adamw": (_adamw, 2),
}
"""The rule that steps a weight in place by its gradient, and how many moments it has, all zero at first."""
