"""The parameters of a rank: whole or in shards, the rows it owns, and their first values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from zerosim.plan import Allocation
from zerosim.workload import Parameter, Workload
from zerosim_runtime.layout import Layout, Piece
from zerosim_runtime.model import initial


@dataclass(frozen=True, slots=True)
class Weights:
    """`whole[unit]` is the flat memory that a unit's parameters are views of; empty while not gathered.

    `shards[unit]` is this rank's rows `[Σ row]` if parameters are sharded, else there are none.
    See Note [Rows].
    """

    layout: Layout
    rank: int
    whole: tuple[torch.Tensor, ...]
    shards: tuple[torch.Tensor, ...]
    parameters: tuple[tuple[nn.Parameter, ...], ...]

    def region(self, piece: Piece) -> torch.Tensor:
        """The whole parameter in memory, flat, with its padding if it has any."""
        start = sum(self._width(p) for p in self.layout.pieces[piece.unit][: piece.index])
        return self.whole[piece.unit][start : start + self._width(piece)]

    def own(self, piece: Piece) -> torch.Tensor:
        """The elements of a parameter that this rank updates: its row, without missing padding."""
        if self.shards:
            return self.shards[piece.unit][piece.offset : piece.offset + piece.row]
        row = self.rank % self.layout.shards
        return self.region(piece)[row * piece.row : (row + 1) * piece.row]

    def _width(self, piece: Piece) -> int:
        return piece.row * self.layout.shards if self.layout.sharded else piece.numel


def make_weights(
    layout: Layout,
    workload: Workload,
    *,
    rank: int,
    dtype: torch.dtype,
    device: torch.device,
    seed: int,
) -> Weights:
    """Parameters with their first values. At no time is more than one of them whole if sharded."""
    widths = [
        sum(p.row * layout.shards if layout.sharded else p.numel for p in pieces)
        for pieces in layout.pieces
    ]
    whole = tuple(torch.empty(n, dtype=dtype, device=device) for n in widths)
    shards = tuple(
        torch.zeros(layout.shard_elements(u), dtype=dtype, device=device)
        for u in range(len(layout.pieces) if layout.sharded else 0)
    )
    weights = Weights(layout, rank, whole, shards, ())
    made = tuple(tuple(_parameter(weights, piece) for piece in pieces) for pieces in layout.pieces)
    weights = Weights(layout, rank, whole, shards, made)
    for piece, parameter in _named(layout, workload):
        values = initial(parameter, piece.unit, piece.index, seed).to(device, dtype)
        if layout.sharded:
            row = values[rank * piece.row : (rank + 1) * piece.row]
            weights.own(piece)[: row.numel()].copy_(row)
        else:
            weights.region(piece).copy_(values)
    if layout.sharded:
        for memory in whole:
            memory.untyped_storage().resize_(0)
    return weights


def allocation_of(weights: Weights) -> Allocation:
    """What the parameters take throughout, as the plan names it."""
    held = weights.shards or weights.whole
    return Allocation("parameters", "parameters", sum(t.untyped_storage().nbytes() for t in held))


def _parameter(weights: Weights, piece: Piece) -> nn.Parameter:
    # `.data` gives the parameter a version counter of its own: a gather writes through the flat
    # memory while autograd holds the parameter, and must not count as a change of it.
    flat = weights.region(piece).data
    return nn.Parameter(flat[: piece.numel].view(piece.shape))


def _named(layout: Layout, workload: Workload) -> Iterator[tuple[Piece, Parameter]]:
    for pieces, unit in zip(layout.pieces, workload.units, strict=True):
        yield from zip(pieces, unit.parameters, strict=True)
