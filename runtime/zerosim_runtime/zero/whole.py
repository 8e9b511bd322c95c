"""The old split: every parameter whole on one rank, the least loaded; some ranks may own nothing."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from zerosim.plan import Allocation
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.buckets import Names
from zerosim_runtime.zero.channels import Channels
from zerosim_runtime.zero.split import Reduction, Split
from zerosim_runtime.zero.stage import Share
from zerosim_runtime.zero.units import label_of


@dataclass(frozen=True, slots=True)
class Whole(Split):
    """`owners` says whose each parameter is (`zerosim.partition.greedy`).

    Stage 1 all-reduces buckets; stage 2 (`to_owner`) has buckets of each owner, reduced to it. After
    the update each owner broadcasts what it owns: flat tensors of unequal length.
    """

    owners: Mapping[str, int]
    parameters: Mapping[str, torch.Tensor]
    units: Mapping[str, str]
    channels: Channels
    memory: Memory
    to_owner: bool

    def share(self, name: str) -> Share | None:
        """All of it, or nothing."""
        numel = self.parameters[name].numel()
        return Share(0, numel, numel) if self._mine(name) else None

    def lane(self, name: str) -> Hashable:
        """Same dtype; in stage 2 the same owner, too."""
        return self.parameters[name].dtype, self.owners[name] if self.to_owner else None

    def begin(self, number: int, names: Names, gradients: Mapping[str, torch.Tensor]) -> Reduction:
        """Gradients end to end, divided by the ranks."""
        buffer = self._new(f"bucket.{number}", "buckets", names)
        for name, part in zip(names, self._cut(buffer, names), strict=True):
            part.copy_(gradients[name].reshape(-1)) if name in gradients else part.zero_()
        buffer.div_(self.channels.n_ranks)
        label = label_of(names, self.units)
        if self.to_owner:
            handle = self.channels.reduce_to(self.owners[names[0]], label, buffer, number)
        else:
            handle = self.channels.all_reduce(label, buffer, number)
        return Reduction(number, names, buffer, None, handle)

    def finish(self, reduction: Reduction) -> dict[str, torch.Tensor]:
        """Keep the gradients of this rank's own parameters."""
        reduction.handle.wait()
        names, number = reduction.names, reduction.number
        mine = tuple(name for name in names if self._mine(name))
        rows: dict[str, torch.Tensor] = {}
        if mine:
            parts = dict(zip(names, self._cut(reduction.buffer, names), strict=True))
            own = self._new(f"reduced.{number}", "gradients", mine)
            rows = dict(zip(mine, self._cut(own, mine), strict=True))
            for name, row in rows.items():
                row.copy_(parts[name])
        self.memory.drop(f"bucket.{number}")
        return rows

    def gather(self, parameters: Mapping[str, torch.Tensor], buckets: Sequence[Names]) -> None:
        """Each owner in turn broadcasts its parameters of each bucket."""
        for number, bucket in enumerate(buckets):
            by_owner = sorted(bucket, key=self.owners.__getitem__)
            for owner, several in groupby(by_owner, key=self.owners.__getitem__):
                self._broadcast(owner, number, tuple(several), parameters)

    def _broadcast(
        self, owner: int, number: int, names: Names, parameters: Mapping[str, torch.Tensor]
    ) -> None:
        flat = self._new(f"gathered.{number}", "gathered", names)
        parts = self._cut(flat, names)
        for name, part in zip(names, parts, strict=True):
            part.copy_(parameters[name])
        self.channels.broadcast(label_of(names, self.units), flat, number, root=owner).wait()
        for name, part in zip(names, parts, strict=True):
            parameters[name].copy_(part)
        self.memory.drop(f"gathered.{number}")

    def _mine(self, name: str) -> bool:
        return self.owners[name] == self.channels.rank

    def _cut(self, flat: torch.Tensor, names: Names) -> tuple[torch.Tensor, ...]:
        return tuple(flat.split([self.parameters[name].numel() for name in names]))

    def _new(self, key: str, kind: str, names: Names) -> torch.Tensor:
        parameters = [self.parameters[name] for name in names]
        elements, dtype = sum(p.numel() for p in parameters), parameters[0].dtype
        return self.memory.new(Allocation(key, kind, elements * dtype.itemsize), elements, dtype)
