"""The plain way: the same model under torch's DistributedDataParallel and torch.optim."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from zerosim.errors import UnknownNameError
from zerosim_runtime.zero.proof.cases import Case
from zerosim_runtime.zero.proof.models import Module, batch_of, build

LR = 1e-2
WEIGHT_DECAY = 1e-2
SEED = 7
_SIZE = 2
_DIVIDED = 12
"""Examples of a batch that ranks divide; 1 to 4 ranks get equal parts."""


@dataclass(frozen=True, slots=True)
class Trained:
    """This rank's loss of every step, and every parameter afterwards, whole."""

    losses: tuple[float, ...]
    parameters: dict[str, torch.Tensor]


def prepared(case: Case, dtype: torch.dtype) -> Module:
    """The model of a case before its first step, its frozen parameters frozen."""
    model = build(case.model, dtype, SEED)
    for name, parameter in model.named_parameters():
        if name.startswith(case.frozen or ("-",)):
            parameter.requires_grad = False
    return model


def batches(
    case: Case, model: Module, dtype: torch.dtype, rank: int, step: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The micro-batches of one rank in one step."""
    if case.divided:
        whole = batch_of(model, dtype, size=_DIVIDED, numbers=(step,))
        size = _DIVIDED // dist.get_world_size()
        mine = slice(rank * size, (rank + 1) * size)
        return [(whole[0][mine], whole[1][mine])]
    return [
        batch_of(model, dtype, size=_SIZE, numbers=(rank, step, micro_batch))
        for micro_batch in range(case.micro_batches)
    ]


def drop_blocks(case: Case, model: Module, step: int) -> None:
    """Leave out in this step what the case leaves out."""
    first, last = case.dropped or (0, 0)
    model.skipped = frozenset({1}) if first <= step <= last else frozenset()


def train_plainly(
    case: Case, dtype: torch.dtype, optimizer: str, steps: int, *, each: bool = False
) -> Trained:
    """Train in the default group; unused parameters keep no gradient, and are not stepped.

    `each`: every micro-batch is averaged by itself, and the averages are added up, as a stage must do
    that keeps no whole gradient; else gradients add up in `no_sync`, and are averaged once.
    """
    model = prepared(case, dtype)
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    stepper = torch_optimizer(optimizer, [p for p in model.parameters() if p.requires_grad])
    losses: list[float] = []
    for step in range(1, steps + 1):
        drop_blocks(case, model, step)
        pairs = batches(case, model, dtype, dist.get_rank(), step)
        losses.append(
            _averaged(case, wrapped, pairs) if each else _accumulated(case, wrapped, pairs)
        )
        if case.clip is not None:
            clip(model.parameters(), case.clip, dtype)
        stepper.step()
        stepper.zero_grad(set_to_none=True)
    return Trained(tuple(losses), {n: p.detach() for n, p in model.named_parameters()})


def clip(parameters: Iterable[nn.Parameter], most: float, dtype: torch.dtype) -> None:
    """Torch's clipping; in less than float64 with a norm that does not depend on how it is summed.

    A norm that ranks sum in parts cannot have the bits of one that is summed in one go, so both sum in
    float64 and round once. What is done with it is `torch.nn.utils.clip_grad_norm_` again.
    """
    have = [p for p in parameters if p.grad is not None]
    if dtype is torch.float64:
        nn.utils.clip_grad_norm_(have, most, foreach=False)
        return
    squares = [torch.linalg.vector_norm(p.grad, dtype=torch.float64).square() for p in have]
    norm = torch.stack(squares).sum().sqrt().float()
    nn.utils.clip_grads_with_norm_(have, most, norm, foreach=False)


def torch_optimizer(name: str, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Torch's own, one tensor after the other."""
    if name == "adamw":
        return torch.optim.AdamW(parameters, LR, weight_decay=WEIGHT_DECAY, foreach=False)
    if name == "adam":
        return torch.optim.Adam(parameters, LR, foreach=False)
    if name == "sgd":
        return torch.optim.SGD(parameters, LR, foreach=False)
    if name == "momentum":
        return torch.optim.SGD(parameters, LR, momentum=0.9, foreach=False)
    raise UnknownNameError("optimizer", name, ("adam", "adamw", "momentum", "sgd"))


def _accumulated(
    case: Case,
    wrapped: DistributedDataParallel,
    pairs: list[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    losses: list[torch.Tensor] = []
    for i, pair in enumerate(pairs, start=1):
        with nullcontext() if i == case.micro_batches else wrapped.no_sync():
            loss: torch.Tensor = wrapped(*pair)
            torch.autograd.backward(loss / case.micro_batches)
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


def _averaged(
    case: Case,
    wrapped: DistributedDataParallel,
    pairs: list[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    losses: list[torch.Tensor] = []
    sums: dict[nn.Parameter, torch.Tensor] = {}
    for pair in pairs:
        loss: torch.Tensor = wrapped(*pair)
        torch.autograd.backward(loss / case.micro_batches)
        losses.append(loss.detach())
        for parameter in wrapped.parameters():
            if parameter.grad is not None:
                before = sums.get(parameter)
                sums[parameter] = parameter.grad if before is None else before + parameter.grad
                parameter.grad = None
    for parameter, total in sums.items():
        parameter.grad = total
    return torch.stack(losses).mean().item()
