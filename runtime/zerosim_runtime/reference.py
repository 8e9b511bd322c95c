"""The plain way: the same model under torch's DistributedDataParallel and torch.optim, to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from zerosim.errors import UnknownNameError
from zerosim.scenario import Scenario, numerics_of, workload_of
from zerosim_runtime.model import batch_of, initial, model_of
from zerosim_runtime.optimizer import Settings


@dataclass(frozen=True, slots=True)
class Trained:
    """The losses of this rank, step by step, and the parameters afterwards, per unit."""

    losses: tuple[float, ...]
    parameters: tuple[tuple[torch.Tensor, ...], ...]


def train_plainly(scenario: Scenario, dtype: torch.dtype, settings: Settings) -> Trained:
    """Train the scenario's model with DDP in the default group; gradients accumulate in `no_sync`."""
    workload = workload_of(scenario)
    parameters = tuple(
        tuple(
            nn.Parameter(initial(p, u, i, scenario.run.seed).to(dtype).view(p.shape))
            for i, p in enumerate(unit.parameters)
        )
        for u, unit in enumerate(workload.units)
    )
    model = DistributedDataParallel(model_of(workload, scenario.workload, parameters))
    optimizer = _optimizer(numerics_of(scenario).optimizer, model.parameters(), settings)
    losses: list[float] = []
    for step in range(1, scenario.run.steps + 1):
        optimizer.zero_grad()
        losses.append(_accumulate(model, scenario, dtype, step))
        optimizer.step()
    return Trained(tuple(losses), tuple(tuple(p.detach() for p in unit) for unit in parameters))


def _accumulate(
    model: DistributedDataParallel, scenario: Scenario, dtype: torch.dtype, step: int
) -> float:
    last = scenario.workload.micro_batches - 1
    losses: list[torch.Tensor] = []
    for micro_batch in range(last + 1):
        batch = batch_of(
            scenario.workload,
            dtype,
            torch.device("cpu"),
            seed=scenario.run.seed,
            rank=dist.get_rank(),
            step=step,
            micro_batch=micro_batch,
        )
        with nullcontext() if micro_batch == last else model.no_sync():
            loss: torch.Tensor = model(batch)
            torch.autograd.backward(loss / (last + 1))
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


def _optimizer(
    name: str, parameters: Iterator[nn.Parameter], settings: Settings
) -> torch.optim.Optimizer:
    if name == "adamw":
        return torch.optim.AdamW(
            parameters,
            settings.lr,
            settings.betas,
            settings.eps,
            weight_decay=settings.weight_decay,
            foreach=False,
        )
    if name == "adam":
        return torch.optim.Adam(
            parameters, settings.lr, settings.betas, settings.eps, foreach=False
        )
    if name in ("sgd", "momentum"):
        momentum = settings.momentum if name == "momentum" else 0.0
        return torch.optim.SGD(parameters, settings.lr, momentum=momentum, foreach=False)
    raise UnknownNameError("optimizer", name, ("adam", "adamw", "momentum", "sgd"))
