"""The parameters of a rank: whole or in shards, the rows it owns, and their first values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

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
        before = self.layout.pieces[piece.unit][: piece.index]
        start = sum(_width(self.layout, other) for other in before)
        return self.whole[piece.unit][start : start + _width(self.layout, piece)]

    def own(self, piece: Piece) -> torch.Tensor:
        """The elements of a parameter that this rank updates: its row, without missing padding."""
        if self.shards:
            return self.shards[piece.unit][piece.offset : piece.offset + piece.row]
        row = self.rank % self.layout.shards
        return self.region(piece)[row * piece.row : (row + 1) * piece.row]


def make_weights(
    layout: Layout,
    workload: Workload,
    *,
    rank: int,
    dtype: torch.dtype,
    device: torch.device,
    seed: int,
) -> Weights:
    """Parameters with their first values. At no time is more than one unit whole if sharded."""
    made = [_unit(layout, pieces, dtype, device) for pieces in layout.pieces]
    shards = tuple(
        torch.zeros(layout.shard_elements(u), dtype=dtype, device=device)
        for u in range(len(layout.pieces) if layout.sharded else 0)
    )
    whole, parameters = tuple(flat for flat, _ in made), tuple(several for _, several in made)
    weights = Weights(layout, rank, whole, shards, parameters)
    for piece, parameter in _named(layout, workload):
        values = initial(parameter, piece.unit, piece.index, seed).to(device, dtype)
        if layout.sharded:
            row = values[rank * piece.row : (rank + 1) * piece.row]
            weights.own(piece)[: row.numel()].copy_(row)
        else:
            weights.region(piece).copy_(values)
    return weights


def allocation_of(weights: Weights) -> Allocation:
    """What the parameters take throughout, as the plan names it."""
    held = weights.shards or weights.whole
    return Allocation("parameters", "parameters", sum(t.untyped_storage().nbytes() for t in held))


def _unit(
    layout: Layout, pieces: Sequence[Piece], dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, tuple[nn.Parameter, ...]]:
    """A unit's flat memory, emptied at once if it is sharded, and the parameters that are views of it."""
    starts = list(accumulate((_width(layout, piece) for piece in pieces), initial=0))
    flat = torch.empty(starts[-1], dtype=dtype, device=device)
    # `.data` gives the parameters a version counter of their own: a gather writes through the flat
    # memory while autograd holds a parameter, and must not count as a change of it.
    parameters = tuple(
        nn.Parameter(flat.data[start : start + piece.numel].view(piece.shape))
        for piece, start in zip(pieces, starts, strict=False)
    )
    if layout.sharded:
        flat.untyped_storage().resize_(0)
    return flat, parameters


def _width(layout: Layout, piece: Piece) -> int:
    return piece.row * layout.shards if layout.sharded else piece.numel


def _named(layout: Layout, workload: Workload) -> Iterator[tuple[Piece, Parameter]]:
    for pieces, unit in zip(layout.pieces, workload.units, strict=True):
        yield from zip(pieces, unit.parameters, strict=True)
