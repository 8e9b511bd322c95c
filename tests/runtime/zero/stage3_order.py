"""What a rank of ZeRO-3 issues in a steady step, in host order, beside what the plan of the same model says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import nn

from zerosim.analysis.order import issue_order
from zerosim.kinds import PREFIX, Kind
from zerosim.scenario import Scenario, run
from zerosim_runtime.memory import Memory
from zerosim_runtime.records import Change
from zerosim_runtime.zero import Options, shard
from zerosim_runtime.zero.channels import Channels

N_LAYERS, HIDDEN, TOKENS = 5, 6, 4
COLLECTIVES = {"all_gather": Kind.ALL_GATHER, "reduce_scatter": Kind.REDUCE_SCATTER}
KINDS = ("parameters", "gathered", "gradients", "buckets")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A schedule to follow; `shared`: all layers are one unit."""

    prefetch: int
    keep_last: bool
    micro_batches: int = 1

    @property
    def name(self) -> str:
        kept = "kept" if self.keep_last else "freed"
        return f"{self.prefetch}-{kept}-{self.micro_batches}"


WANTED = (
    *(Wanted(prefetch, keep_last) for prefetch in (0, 1, 3) for keep_last in (True, False)),
    Wanted(0, keep_last=True, micro_batches=2),
    Wanted(2, keep_last=False, micro_batches=2),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The order of a step, the elements of its collectives, and the most bytes of each kind at once."""

    order: str
    elements: list[int]
    peaks: dict[str, int]


def simulated(wanted: Wanted, n_ranks: int) -> Seen:
    scenario = Scenario.from_dict(
        {
            "name": wanted.name,
            "workload": {
                "model": "uniform",
                "layers": N_LAYERS,
                "hidden": HIDDEN,
                "micro_batch": TOKENS,
                "micro_batches": wanted.micro_batches,
            },
            "schedule": {
                "name": "zero3",
                "prefetch": wanted.prefetch,
                "keep_last": wanted.keep_last,
                # So a bucket has gone before the next one is filled, as `in_flight` has it here.
                "communicators": 1,
            },
            "cluster": {"name": "cpu-gloo", "world_size": n_ranks},
            "numerics": {"dtype": "float32", "optimizer": "adamw"},
            "run": {"steps": 3, "seed": 7},
        }
    )
    trace = run(scenario)
    rows = trace.spans.to_dicts()
    first = [r for r in rows if r["rank"] == 0 and r["step"] == 2 and r["kind"] in COLLECTIVES]
    samples = trace.samples.to_dicts()
    peaks = {
        kind: max(
            s["value"] for s in samples if s["counter"] == f"memory.{kind}" and s["rank"] == 0
        )
        for kind in KINDS
    }
    return Seen(str(issue_order(trace)), [r["elements"] for r in first], peaks)


def real(wanted: Wanted) -> Seen:
    """Three steps of the same model in shards; what the second one issued."""
    torch.manual_seed(0)
    module = nn.Sequential(*(nn.Linear(HIDDEN, HIDDEN) for _ in range(N_LAYERS)))
    options = Options(
        prefetch=wanted.prefetch, keep_last=wanted.keep_last, poison=True, guard=False
    )
    order: list[str] = []
    elements: list[int] = []
    with shard(module, options) as trainer, _noted(order, elements):
        trainer.ledger.changes = _Kept(trainer.ledger.changes)
        for name, layer in module.named_children():
            _mark(layer, name, order)
        for step in (1, 2, 3):
            if step == 2:
                order.clear()
                elements.clear()
            for i in range(wanted.micro_batches):
                loss = module(torch.ones(TOKENS, HIDDEN)).square().mean()
                trainer.backward(loss, last=i + 1 == wanted.micro_batches)
            trainer.step()
            if step == 2:
                seen = " ".join([*order, "OPT"]), list(elements)
        return Seen(*seen, _peaks(trainer.ledger))


def _mark(layer: nn.Module, name: str, order: list[str]) -> None:
    """Hooks that come after the library's."""

    def after(_: nn.Module, __: object, output: torch.Tensor) -> None:
        output.register_hook(lambda _: order.append(f"B{name}"))

    layer.register_forward_pre_hook(lambda *_: order.append(f"F{name}"))
    layer.register_forward_hook(after)


@contextmanager
def _noted(order: list[str], elements: list[int]) -> Iterator[None]:
    plain = {name: getattr(Channels, name) for name in COLLECTIVES}

    def noting(kind: Kind, issue: Callable[..., Any]) -> Callable[..., Any]:
        def noted(
            channels: Channels, unit: str, output: torch.Tensor, source: torch.Tensor
        ) -> object:
            order.append(PREFIX[kind] + unit)
            elements.append(max(output.numel(), source.numel()))
            return issue(channels, unit, output, source)

        return noted

    for name, kind in COLLECTIVES.items():
        setattr(Channels, name, noting(kind, plain[name]))
    try:
        yield
    finally:
        for name, issue in plain.items():
            setattr(Channels, name, issue)


class _Kept(list[Change]):
    """The trainer forgets changes at each step; here all are kept."""

    def clear(self) -> None:
        pass


def _peaks(ledger: Memory) -> dict[str, int]:
    return {
        kind: max(accumulate(change.nbytes for change in ledger.changes if change.kind == kind))
        for kind in KINDS
    }
