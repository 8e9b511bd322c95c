"""A unit on one rank: its shard for good, its parameters while gathered, its gradients on their way out.

# Note [Freeing]
A unit's parameters are views of one flat tensor, `whole`. It is freed by emptying its storage and
refilled in place: autograd keeps views of it (a transposed weight), which must come back to life with
it, and which would keep a storage that was merely replaced. The refill writes through `whole`, which
shares no version counter with the parameters, so that autograd does not take it for a change of them.
A storage that a collective is moving is never emptied: rows travel in tensors of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from zerosim.plan import Allocation
from zerosim_runtime.collectives import Handle
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.absent import come_back, leave
from zerosim_runtime.zero.channels import Channels
from zerosim_runtime.zero.groups import Group
from zerosim_runtime.zero.rows import Piece, join_rows, piece_of, split_rows


@dataclass(slots=True, eq=False)
class Holding:
    """`shard` is this rank's row of every parameter, end to end; `trained` are those with gradients.

    `n_calls`: forward calls whose backward has not come yet. `reached`: a backward has come to this
    unit since its last reduction. `reduced`: this rank's rows of the mean gradients.
    """

    group: Group
    pieces: tuple[Piece, ...]
    trained: tuple[Piece, ...]
    shard: torch.Tensor
    whole: torch.Tensor
    channels: Channels
    memory: Memory
    hooks: tuple[RemovableHandle, ...] = ()
    used: set[str] = field(default_factory=set)
    gathered: bool = False
    on_its_way: tuple[Handle, torch.Tensor] | None = None
    n_calls: int = 0
    reached: bool = False
    gradient: torch.Tensor | None = None
    reduced: torch.Tensor | None = None

    @property
    def name(self) -> str:
        """The unit's module path."""
        return self.group.name

    def gather(self) -> None:
        """Begin to bring the parameters to life, unless they are there or on their way."""
        if self.gathered or not self.pieces:
            return
        n_ranks, width = self.channels.n_ranks, self.whole.element_size()
        whole = Allocation(f"gathered.{self.name}", "gathered", self.whole.numel() * width)
        self.memory.refill(whole, self.whole)
        rows = self._new("rows", "workspace", n_ranks * self.shard.numel())
        self.on_its_way = self.channels.all_gather(self.name, rows, self.shard), rows
        self.gathered = True

    def arrive(self) -> None:
        """Wait until what was gathered is there, and put each parameter together."""
        if self.on_its_way is None:
            return
        handle, rows = self.on_its_way
        handle.wait()
        n_ranks, start = self.channels.n_ranks, 0
        with torch.no_grad():
            for piece, region in self._regions(self.pieces, self.whole):
                arrived = rows.view(n_ranks, -1)[:, start : start + piece.row]
                region.view(n_ranks, piece.row).copy_(arrived)
                start += piece.row
        self._landed()
        for parameter in self.group.parameters.values():
            come_back(parameter)

    def free(self) -> None:
        """Empty the parameters' memory. See Note [Freeing]."""
        if not self.gathered:
            return
        if self.on_its_way is not None:
            self.on_its_way[0].wait()
            self._landed()
        for name, parameter in self.group.parameters.items():
            leave(parameter, self.name, name)
        self.memory.empty(f"gathered.{self.name}")
        self.gathered = False

    def owns(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in the memory that is freed: a parameter, or a view of one."""
        if tensor.layout is not torch.strided or not self.pieces:
            return False
        return tensor.untyped_storage().data_ptr() == self.whole.untyped_storage().data_ptr()

    def receive(self, name: str) -> None:
        """A gradient is about to be accumulated: give those of the unit their memory, all at once."""
        self.used.add(name)
        if self.gradient is not None:
            return
        n_elements = self.channels.n_ranks * sum(piece.row for piece in self.trained)
        self.gradient = self._new("gradient", "gradients", n_elements, zero=True)
        for piece, region in self._regions(self.trained, self.gradient):
            self.group.parameters[piece.name].grad = region[: piece.numel].view(piece.shape)

    def scatter(self, number: int) -> Callable[[], None]:
        """Reduce what gradients there are (zeros for the rest), and let them go; returns what ends it.

        The mean lands in this rank's rows, or is added to what earlier micro-batches left there.
        `number` is a new one each time.
        """
        bucket = self._filled()
        first = self.reduced is None
        n_own = bucket.numel() // self.channels.n_ranks
        key = "reduced" if first else f"sum.{number}"
        own = self._new(key, "gradients" if first else "workspace", n_own)
        if first:
            self.reduced = own
        handle = self.channels.reduce_scatter(self.name, own, bucket)
        # As a plan sees it the bucket is free now; it stays, as workspace, while it travels.
        self.memory.drop(self._key("bucket"))
        self.memory.book(self._key(f"travels.{number}"), "workspace", bucket.nbytes)

        def end() -> None:
            nonlocal bucket
            handle.wait()
            del bucket
            self.memory.drop(self._key(f"travels.{number}"))
            if not first and self.reduced is not None:
                self.reduced.add_(own)
                self.memory.drop(self._key(key))

        return end

    def rows(self) -> dict[str, torch.Tensor | None]:
        """This rank's row of each mean gradient, by parameter; None before any reduction."""
        if self.reduced is None:
            return dict.fromkeys(piece.name for piece in self.trained)
        return {**_cut(self.trained, self.reduced)}

    def weights(self) -> dict[str, torch.Tensor]:
        """This rank's row of each parameter that is trained."""
        return _cut(self.pieces, self.shard)

    def forget(self) -> None:
        """Drop the reduced gradients."""
        if self.reduced is not None:
            self.reduced = None
            self.memory.drop(self._key("reduced"))
        self.used.clear()

    def join(self, name: str) -> torch.Tensor:
        """One parameter, whole, in memory of its own; all ranks must ask for it together."""
        piece = next(piece for piece in self.pieces if piece.name == name)
        row = _cut(self.pieces, self.shard)[name].contiguous()
        rows = self._new("asked", "workspace", self.channels.n_ranks * piece.row)
        self.channels.all_gather(self.name, rows, row).wait()
        self.memory.drop(self._key("asked"))
        return join_rows(rows.view(self.channels.n_ranks, piece.row), piece)

    def _filled(self) -> torch.Tensor:
        """The bucket `[ranks, Σ row]`, each gradient divided by the number of ranks."""
        n_ranks = self.channels.n_ranks
        n_elements = n_ranks * sum(piece.row for piece in self.trained)
        bucket = self._new("bucket", "buckets", n_elements, zero=self.gradient is None)
        if self.gradient is None:
            return bucket
        start = 0
        for piece, region in self._regions(self.trained, self.gradient):
            place = bucket.view(n_ranks, -1)[:, start : start + piece.row]
            torch.mul(region.view(n_ranks, piece.row), 1 / n_ranks, out=place)
            start += piece.row
            self.group.parameters[piece.name].grad = None
        self.gradient = None
        self.memory.drop(self._key("gradient"))
        return bucket

    def _regions(
        self, pieces: tuple[Piece, ...], flat: torch.Tensor
    ) -> list[tuple[Piece, torch.Tensor]]:
        """The padded part of `flat` of each parameter."""
        sizes = [piece.row * self.channels.n_ranks for piece in pieces]
        return list(zip(pieces, flat.split(sizes), strict=True))

    def _landed(self) -> None:
        self.on_its_way = None
        self.memory.drop(self._key("rows"))

    def _new(self, use: str, kind: str, n_elements: int, *, zero: bool = False) -> torch.Tensor:
        dtype = self.whole.dtype
        allocation = Allocation(self._key(use), kind, n_elements * dtype.itemsize)
        return self.memory.new(allocation, n_elements, dtype, zero=zero)

    def _key(self, use: str) -> str:
        return f"{use}.{self.name}"


def hold(group: Group, channels: Channels, memory: Memory) -> Holding:
    """Take a unit's parameters, keep this rank's rows of them, and free the rest."""
    n_ranks = channels.n_ranks
    parameters = group.parameters
    pieces = tuple(piece_of(name, p, n_ranks) for name, p in parameters.items())
    dtype = next((p.dtype for p in parameters.values()), torch.float32)
    n_own = sum(piece.row for piece in pieces)
    allocation = Allocation(f"parameters.{group.name}", "parameters", n_own * dtype.itemsize)
    shard = memory.new(allocation, n_own, dtype)
    whole = torch.empty(n_ranks * n_own, dtype=dtype, device=memory.device)
    starts = accumulate((piece.row for piece in pieces), initial=0)
    for (name, parameter), piece, start in zip(parameters.items(), pieces, starts, strict=False):
        rows = split_rows(parameter.detach(), piece, n_ranks)
        shard[start : start + piece.row] = rows[channels.rank]
        region = whole.data[n_ranks * start : n_ranks * start + piece.numel]
        parameter.grad = None
        parameter.data = region.view(piece.shape)
        leave(parameter, group.name, name)
    whole.untyped_storage().resize_(0)
    trained = tuple(piece for piece in pieces if parameters[piece.name].requires_grad)
    held = Holding(group, pieces, trained, shard, whole, channels, memory)
    held.hooks = tuple(_watch(held, piece.name) for piece in trained)
    return held


def _watch(held: Holding, name: str) -> RemovableHandle:
    """Be told before autograd accumulates a gradient."""
    parameter: Any = held.group.parameters[name]  # torch's method has no types
    come_back(parameter)
    hook: RemovableHandle = parameter.register_hook(lambda _: held.receive(name))
    leave(parameter, held.name, name)
    return hook


def _cut(pieces: tuple[Piece, ...], flat: torch.Tensor) -> dict[str, torch.Tensor]:
    """A shard as rows, by parameter."""
    rows = flat.split([piece.row for piece in pieces])
    return {piece.name: row for piece, row in zip(pieces, rows, strict=True)}
