"""One training on one rank: train by the library and plainly, and say how far they are apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist

from zerosim_runtime.optimizer import Settings
from zerosim_runtime.zero import Options, Trainer, shard
from zerosim_runtime.zero.options import STAGES
from zerosim_runtime.zero.proof.bugs import planted
from zerosim_runtime.zero.proof.by_hand import Scale, train_by_hand
from zerosim_runtime.zero.proof.cases import CASES, MODES, Case, Training
from zerosim_runtime.zero.proof.models import Module
from zerosim_runtime.zero.proof.plain import (
    LR,
    WEIGHT_DECAY,
    Trained,
    batches,
    drop_blocks,
    prepared,
    train_plainly,
)

_TIMEOUT_S: Final = 20.0
_NARROW: Final = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far this rank is from the reference: the largest differences, and whether all bits agree.

    `skipped`: steps that overflowed. `n_parameters` were compared, frozen ones too.
    """

    loss_error: float
    parameter_error: float
    bitwise: bool
    first_loss: float
    last_loss: float
    skipped: int
    n_parameters: int


@dataclass(slots=True)
class Judge:
    """Judges trainings one after the other; several modes of a case share one reference."""

    checkpoints: Path
    known: dict[tuple[Any, ...], Trained] = field(default_factory=dict)

    def judge(self, training: Training) -> Verdict:
        """Train twice and compare; all ranks must judge the same trainings together."""
        case = CASES[training.case]
        trained, skipped = _by_library(training, case, self.checkpoints)
        return _compared(trained, self._reference(training, case), skipped)

    def _reference(self, training: Training, case: Case) -> Trained:
        key = (
            training.case,
            training.dtype,
            training.optimizer,
            training.steps,
            training.loss_scale,
            _each(training),
        )
        if key not in self.known:
            self.known[key] = _reference(training, case)
        return self.known[key]


def trainer_of(training: Training, model: Module) -> Trainer:
    """The library as a training asks for it."""
    dtype = _dtype(training)
    case = CASES[training.case]
    options = Options(
        **MODES[training.mode],
        poison=True,
        dtype=dtype if dtype in _NARROW else None,
        optimizer=training.optimizer,
        settings=Settings(lr=LR, weight_decay=WEIGHT_DECAY),
        clip_norm=case.clip,
        loss_scale=training.loss_scale,
    )
    return shard(model, options, timeout_s=_TIMEOUT_S)


def train_steps(
    trainer: Trainer, training: Training, model: Module, first: int, last: int
) -> tuple[list[float], int]:
    """Steps `first` to `last`, counted from 1: this rank's losses, and how many steps overflowed."""
    case, losses, skipped = CASES[training.case], [], 0
    for step in range(first, last + 1):
        drop_blocks(case, model, step)
        losses.append(_accumulated(trainer, training, model, step))
        skipped += trainer.step().skipped
    return losses, skipped


def wholes(trainer: Trainer, model: Module) -> dict[str, torch.Tensor]:
    """Every parameter, whole, on every rank; frozen ones too."""
    return {name: trainer.stage.whole(name).clone() for name, _ in model.named_parameters()}


def _dtype(training: Training) -> torch.dtype:
    found: torch.dtype = getattr(torch, training.dtype)
    return found


def _each(training: Training) -> bool:
    """Whether the reference averages every micro-batch by itself: where bits count, as stage 3 does."""
    return MODES[training.mode]["stage"] == STAGES[-1] and training.dtype != "float64"


def _by_library(training: Training, case: Case, checkpoints: Path) -> tuple[Trained, int]:
    """Train all steps, or those after a checkpoint; half-way one may be written."""
    dtype, half = _dtype(training), training.steps // 2
    model = prepared(case, torch.float32 if dtype in _NARROW else dtype)
    losses: list[float] = []
    skipped = 0
    with planted(training.bug), trainer_of(training, model) as trainer:
        if training.load is None:
            losses, skipped = train_steps(trainer, training, model, 1, half)
        else:
            trainer.load(checkpoints / training.load)
        if training.save is not None:
            trainer.save(checkpoints / training.save)
        more, again = train_steps(trainer, training, model, half + 1, training.steps)
        parameters = wholes(trainer, model)
    return Trained((*losses, *more), parameters), skipped + again


def _accumulated(trainer: Trainer, training: Training, model: Module, step: int) -> float:
    case, losses = CASES[training.case], []
    pairs = batches(case, model, _dtype(training), dist.get_rank(), step)
    for i, pair in enumerate(pairs, start=1):
        loss: torch.Tensor = model(*pair)
        trainer.backward(loss / case.micro_batches, last=i == case.micro_batches)
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


def _reference(training: Training, case: Case) -> Trained:
    dtype = _dtype(training)
    if dtype not in _NARROW:
        return train_plainly(case, dtype, training.optimizer, training.steps, each=_each(training))
    scale = Scale(
        1.0 if training.loss_scale is None else training.loss_scale or 2.0**16,
        training.loss_scale == 0,
    )
    every = train_by_hand(
        case,
        dtype,
        training.optimizer,
        training.steps,
        n_ranks=dist.get_world_size(),
        scale=scale,
        each=_each(training),
    )
    return every[dist.get_rank()]


def _compared(trained: Trained, plain: Trained, skipped: int) -> Verdict:
    losses = plain.losses[-len(trained.losses) :]  # after a checkpoint: the rest
    pairs = [(trained.parameters[name], p) for name, p in plain.parameters.items()]
    return Verdict(
        loss_error=max(abs(a - b) for a, b in zip(trained.losses, losses, strict=True)),
        parameter_error=max(_apart(a, b) for a, b in pairs),
        bitwise=trained.losses == losses and all(torch.equal(a, b) for a, b in pairs),
        first_loss=plain.losses[0],
        last_loss=plain.losses[-1],
        skipped=skipped,
        n_parameters=len(pairs),
    )


def _apart(a: torch.Tensor, b: torch.Tensor) -> float:
    return torch.nan_to_num((a - b).double().abs(), nan=float("inf")).max().item()
