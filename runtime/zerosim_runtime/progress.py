"""One rank on its way through a plan: all that it has, and the collectives that are under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from zerosim.plan import Op
from zerosim_runtime.collectives import Communicator
from zerosim_runtime.layout import Layout
from zerosim_runtime.memory import Memory
from zerosim_runtime.optimizer import Optimizer
from zerosim_runtime.recorder import Recorder, Row
from zerosim_runtime.weights import Weights


@dataclass(frozen=True, slots=True)
class Pending:
    """A collective under way; `finish` puts its result in place once it has ended."""

    op: Op
    row: Row
    finish: Callable[[], None]


@dataclass(slots=True)
class Rank:
    """All that one rank has: weights, optimizer, memory, communicators, the record, what is under way.

    `gradients` says where each parameter's gradient goes, by (unit, index); `buffer` holds all
    buckets that are all-reduced, and gradients are `views` of it or copies.
    """

    n_ranks: int
    layout: Layout
    weights: Weights
    optimizer: Optimizer
    memory: Memory
    recorder: Recorder
    communicators: dict[str, Communicator]
    grad_dtype: torch.dtype
    pending: deque[Pending] = field(default_factory=deque)
    gradients: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    buffer: torch.Tensor | None = None
    views: bool = False


def settle(rank: Rank, after: tuple[int, ...]) -> None:
    """Wait for those of the ops `after` that are collectives, and for what they queue behind."""
    wanted: dict[str | None, int] = {}
    for pending in rank.pending:
        if pending.op.id in after:
            wanted[pending.op.communicator] = pending.op.id
    for pending in tuple(rank.pending):
        if pending.op.id <= wanted.get(pending.op.communicator, -1):
            rank.pending.remove(pending)
            if pending.row.handle is not None:
                pending.row.handle.wait()
            pending.finish()


def settle_all(rank: Rank) -> None:
    """Wait for everything under way."""
    settle(rank, tuple(pending.op.id for pending in rank.pending))


def issue(
    rank: Rank, op: Op, output: torch.Tensor, source: torch.Tensor, finish: Callable[[], None]
) -> None:
    """Issue a collective. What it moves must be ready, which is so: the host has waited for it."""
    row = rank.recorder.begin(op.id)
    channel = rank.communicators[str(op.communicator)]
    row.handle = channel.issue(op.kind, op.name, output, source)
    rank.pending.append(Pending(op, row, finish))
