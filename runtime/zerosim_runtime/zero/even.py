"""The even split: rank r owns row r of every parameter; rows of the same rank are united in buckets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from zerosim.plan import Allocation
from zerosim_runtime.collectives import Handle
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.buckets import Names
from zerosim_runtime.zero.channels import Channels
from zerosim_runtime.zero.rows import Piece, lay_rows, read_rows
from zerosim_runtime.zero.split import Reduction, Split
from zerosim_runtime.zero.stage import Share
from zerosim_runtime.zero.units import label_of

_GATHERS: Final = 2
"""Gathers outstanding at once: one travels while the one before it is copied out."""


@dataclass(frozen=True, slots=True)
class Even(Split):
    """See Note [Rank-major buckets]; `scatter` is ZeRO-2.

    # Note [Rank-major buckets]
    A bucket is a matrix `[n_ranks, width]`: row r holds row r of each of its gradients, side by side
    (`{0: [g00, g10], 1: [g01, g11], …}`). So rank r's part of the sum is one contiguous row: ZeRO-1
    all-reduces the matrix and keeps that row, ZeRO-2 reduce-scatters it.
    """

    pieces: Mapping[str, Piece]
    dtypes: Mapping[str, torch.dtype]
    units: Mapping[str, str]
    channels: Channels
    memory: Memory
    scatter: bool

    def share(self, name: str) -> Share:
        """Row r, which ends where the parameter does."""
        piece = self.pieces[name]
        start = min(self.channels.rank * piece.row, piece.numel)
        return Share(start, min(start + piece.row, piece.numel), piece.row)

    def lane(self, name: str) -> torch.dtype:
        """Any two gradients of the same dtype."""
        return self.dtypes[name]

    def begin(self, number: int, names: Names, gradients: Mapping[str, torch.Tensor]) -> Reduction:
        """Unite the rows of the same rank, divide, and start the sum."""
        n_ranks, width = self.channels.n_ranks, self._width(names)
        buffer = self._new(f"bucket.{number}", "buckets", n_ranks * width, names)
        rows = buffer.view(n_ranks, width)
        for name, start in zip(names, self._starts(names), strict=True):
            row = rows[:, start : start + self.pieces[name].row]
            lay_rows(row, gradients[name]) if name in gradients else row.zero_()
        buffer.div_(n_ranks)
        label = label_of(names, self.units)
        if not self.scatter:
            handle = self.channels.all_reduce(label, buffer, number)
            return Reduction(number, names, buffer, None, handle)
        own = self._new(f"reduced.{number}", "gradients", width, names)
        handle = self.channels.reduce_scatter(label, own, buffer, number)
        return Reduction(number, names, buffer, own, handle)

    def finish(self, reduction: Reduction) -> dict[str, torch.Tensor]:
        """Keep this rank's row of the bucket, cut into the rows of its parameters."""
        reduction.handle.wait()
        names, number, own = reduction.names, reduction.number, reduction.own
        if own is None:
            own = self._new(f"reduced.{number}", "gradients", self._width(names), names)
            own.copy_(reduction.buffer.view(self.channels.n_ranks, -1)[self.channels.rank])
        self.memory.drop(f"bucket.{number}")
        starts = self._starts(names)
        return {
            name: own[start : start + self.pieces[name].row]
            for name, start in zip(names, starts, strict=True)
        }

    def gather(self, parameters: Mapping[str, torch.Tensor], buckets: Sequence[Names]) -> None:
        """All-gather rows bucket by bucket; few are under way at once (they take memory)."""
        under_way: deque[tuple[int, Names, Handle]] = deque()
        for number, names in enumerate(buckets):
            under_way.append((number, names, self._gather(number, names, parameters)))
            if len(under_way) == _GATHERS:
                self._copy_out(parameters, *under_way.popleft())
        while under_way:
            self._copy_out(parameters, *under_way.popleft())

    def _gather(self, number: int, names: Names, parameters: Mapping[str, torch.Tensor]) -> Handle:
        width = self._width(names)
        own = self._new(f"row.{number}", "buckets", width, names)
        whole = self._new(f"gathered.{number}", "gathered", self.channels.n_ranks * width, names)
        for name, start in zip(names, self._starts(names), strict=True):
            share = self.share(name)
            place = own[start : start + share.row]
            place[: share.end - share.start].copy_(parameters[name][share.start : share.end])
            place[share.end - share.start :].zero_()
        return self.channels.all_gather(label_of(names, self.units), whole, own, number)

    def _copy_out(
        self, parameters: Mapping[str, torch.Tensor], number: int, names: Names, handle: Handle
    ) -> None:
        handle.wait()
        rows = self.memory.tensors[f"gathered.{number}"].view(self.channels.n_ranks, -1)
        for name, start in zip(names, self._starts(names), strict=True):
            read_rows(parameters[name], rows[:, start : start + self.pieces[name].row])
        self.memory.drop(f"row.{number}")
        self.memory.drop(f"gathered.{number}")

    def _new(self, key: str, kind: str, elements: int, names: Names) -> torch.Tensor:
        dtype = self.dtypes[names[0]]
        return self.memory.new(Allocation(key, kind, elements * dtype.itemsize), elements, dtype)

    def _width(self, names: Names) -> int:
        return sum(self.pieces[name].row for name in names)

    def _starts(self, names: Names) -> Iterable[int]:
        start = 0
        for name in names:
            yield start
            start += self.pieces[name].row
