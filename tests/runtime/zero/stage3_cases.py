"""The trainings of the stage 3 tests, each done twice: in shards, and by plain averaging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.runtime.zero.stage3_models import (
    DIM,
    N_WORDS,
    Chain,
    Inners,
    Net,
    Odd,
    each_again,
    pairs_again,
)
from zerosim_runtime.optimizer import Settings
from zerosim_runtime.zero import Options, shard

N_STEPS = 5
LR = 0.05
Prepare = Callable[[nn.Module, int], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A training. `prepare` changes the module before each step; `frozen` are prefixes of names.

    `narrow`: in 16 bits, compared with stage 2.
    """

    name: str
    build: Callable[[], nn.Module]
    options: dict[str, Any] = field(default_factory=dict)
    units: tuple[str, ...] | None = None
    frozen: tuple[str, ...] = ()
    micro_batches: int = 1
    prepare: Prepare | None = None
    evaluated: bool = False
    narrow: torch.dtype | None = None


@dataclass(frozen=True, slots=True)
class Trained:
    losses: list[float]
    parameters: dict[str, torch.Tensor]
    evaluations: list[float]


def cases() -> Iterator[Case]:
    yield Case("plain", Net)
    yield Case("bare", Net, {"prefetch": 0, "keep_last": False})
    yield Case("ahead", Net, {"prefetch": 3, "in_flight": 3})
    yield Case("sgd", Net, {"optimizer": "sgd"})
    yield Case("clipped", Net, {"clip_norm": 0.1})
    yield Case("tied", lambda: Net(tied=True))
    yield Case("tied-units", lambda: Net(tied=True), units=("emb", "blocks.0", "blocks.2", "head"))
    yield Case("chain", Chain, units=("0", "2", "3"))
    yield Case("frozen-blocks", Net, frozen=("blocks.1", "blocks.2.up"))
    yield Case(
        "frozen-ends", Net, {"keep_last": False}, frozen=("blocks.0", "emb", "blocks.3", "head")
    )
    yield Case("dropped", Net, prepare=_drop)
    yield Case("shared", lambda: Net(shared=True), {"prefetch": 2})
    for reentrant in (False, True):
        word = "reentrant" if reentrant else "again"
        yield Case(word, partial(Net, around=each_again(reentrant=reentrant)))
        yield Case(
            f"{word}-pairs",
            partial(Net, around=pairs_again(reentrant=reentrant)),
            {"prefetch": 2},
        )
        yield Case(f"{word}-inside", partial(Inners, reentrant=reentrant))
        yield Case(
            f"{word}-shared", partial(Net, shared=True, around=each_again(reentrant=reentrant))
        )
    yield Case("odd", Odd, units=("places", "forks.0", "forks.1", "body.last", "body.last.up"))
    yield Case("accumulated", Net, {"prefetch": 0}, micro_batches=2)
    yield Case(
        "accumulated-dropped",
        lambda: Net(tied=True),
        {"in_flight": 4},
        micro_batches=3,
        prepare=_drop,
    )
    yield Case("evaluated", Net, evaluated=True)
    yield Case("dropped-ahead", Net, {"prefetch": 3}, prepare=_drop)
    yield Case("bfloat16", Net, {"loss_scale": None}, narrow=torch.bfloat16)
    yield Case("float16", lambda: Net(tied=True), {"loss_scale": 0}, narrow=torch.float16)


FEW = ("plain", "tied", "frozen-ends", "shared", "reentrant-pairs", "odd", "accumulated-dropped")
"""What three ranks train."""


def cases_of(n_ranks: int) -> list[Case]:
    return [c for c in cases() if n_ranks < 3 or (n_ranks == 3 and c.name in FEW)]


def _drop(module: nn.Module, step: int) -> None:
    module.dropped = {1} if step in (1, 2) else {3} if step == 3 else set()  # type: ignore[assignment] # a plain attribute


def case(name: str) -> Case:
    return next(each for each in cases() if each.name == name)


def made(case: Case, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(3)
    module = case.build().to(dtype)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.startswith(case.frozen or ("-",)))
    return module


def loss_of(module: nn.Module, number: int, dtype: torch.dtype) -> torch.Tensor:
    random = torch.Generator().manual_seed(1000 * number + dist.get_rank())
    if isinstance(module, Chain):
        inputs = torch.randn(4, DIM, generator=random, dtype=torch.float64).to(dtype)
        return nn.functional.softplus(module(inputs)).mean()
    words = torch.randint(N_WORDS, (3, 6), generator=random)
    out = module(words[:, :-1])
    if isinstance(out, dict):
        return nn.functional.softplus(out["x"]).mean()
    return nn.functional.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten())


def train_sharded(case: Case, dtype: torch.dtype, stage: int = 3) -> Trained:
    module = made(case, dtype)
    # The ranks begin differently, and must not stay so.
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(dist.get_rank())
    options = Options(
        **{
            "stage": stage,
            "dtype": case.narrow,
            "guard": False,
            "poison": True,
            "settings": Settings(lr=LR),
            **case.options,
        }
    )
    losses, evaluations = [], []
    with shard(module, options, case.units) as trainer:
        for step in range(N_STEPS):
            if case.prepare:
                case.prepare(module, step)
            total = 0.0
            for i in range(case.micro_batches):
                number = step * case.micro_batches + i
                loss = loss_of(module, number, dtype) / case.micro_batches
                if case.evaluated:
                    evaluations.append(_evaluated(module, dtype))
                trainer.backward(loss, last=i == case.micro_batches - 1)
                total += loss.item()
            trainer.step()
            if case.evaluated:
                evaluations.append(_evaluated(module, dtype))
            losses.append(total)
            left_over = {key for key in trainer.ledger.booked if not _stays(key)}
            assert stage < 3 or not left_over, left_over
        parameters = trainer.whole()
    return Trained(losses, parameters, evaluations)


def _stays(key: str) -> bool:
    return key.startswith(("parameters", "optimizer"))


@torch.no_grad()
def _evaluated(module: nn.Module, dtype: torch.dtype) -> float:
    module.eval()
    loss = loss_of(module, 99, dtype).item()
    module.train()
    return loss


def train_plainly(case: Case, dtype: torch.dtype) -> Trained:
    """Whole parameters everywhere; gradients are averaged after the backward, as DDP does."""
    if case.narrow is not None:
        return train_sharded(case, dtype, stage=2)
    module = made(case, dtype)
    options = Options(**{"settings": Settings(lr=LR), **case.options})
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer: torch.optim.Optimizer = (
        torch.optim.SGD(parameters, LR)
        if options.optimizer == "sgd"
        else torch.optim.AdamW(parameters, LR, weight_decay=1e-2, foreach=False)
    )
    losses, evaluations = [], []
    for step in range(N_STEPS):
        if case.prepare:
            case.prepare(module, step)
        optimizer.zero_grad()
        total = 0.0
        sums: dict[int, torch.Tensor] = {}
        for i in range(case.micro_batches):
            loss = loss_of(module, step * case.micro_batches + i, dtype) / case.micro_batches
            if case.evaluated:
                evaluations.append(_evaluated(module, dtype))
            loss.backward()
            total += loss.item()
            _add_mean(parameters, sums)
        for i, parameter in enumerate(parameters):
            parameter.grad = sums.get(i)
        if options.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, options.clip_norm, foreach=False)
        optimizer.step()
        if case.evaluated:
            evaluations.append(_evaluated(module, dtype))
        losses.append(total)
    return Trained(losses, {n: p.detach() for n, p in module.named_parameters()}, evaluations)


def _add_mean(parameters: list[nn.Parameter], sums: dict[int, torch.Tensor]) -> None:
    """Each micro-batch is reduced and added up."""
    used = torch.tensor([p.grad is not None for p in parameters], dtype=torch.int32)
    dist.all_reduce(used)
    for i, parameter in enumerate(parameters):
        if used[i]:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            gradient = gradient.detach() / dist.get_world_size()
            dist.all_reduce(gradient)
            sums[i] = sums[i] + gradient if i in sums else gradient
        parameter.grad = None
