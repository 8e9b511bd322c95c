"""DDP's buckets: which parameters the next all-reduce of its reducer is about.

The reducer reduces its buckets one after the other, each a run of parameters in the order in which they
became ready: at first the reverse of their registration, then (once it has made them anew) the order of
the first backward, which DDP's own record gives. The run ends where its elements add up to the bucket's.
The record is read between a forward and its backward: inside a backward the reducer holds its lock.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.nn.parallel import DistributedDataParallel

from zerosim_runtime.tracing.models import Models
from zerosim_runtime.tracing.worker_times import current_graph

_READY: Final = "prev_iteration_grad_ready_order_indices"
Parameter = tuple[str, int, torch.dtype]
"""Its path, its elements, and the dtype of its gradient."""
_Key = tuple[int, int, torch.dtype]
_Next = tuple[list[Parameter], tuple[str, ...], list[Parameter]]


@dataclass(slots=True)
class Reducer:
    """The reducer of a DDP module: how far its present backward (`graph`) has come."""

    replica: weakref.ref[DistributedDataParallel]
    graph: int = -1
    bucket: int = 0
    left: list[Parameter] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    rebuilt: bool = False
    order: list[Parameter] = field(default_factory=list)
    known: dict[_Key, _Next] = field(default_factory=dict)
    """What `_next` found, by its list's id, which it holds, and the tensor's elements and dtype."""

    def refresh(self) -> None:
        """Learn in which order the parameters will be ready; a forward has just ended."""
        replica = self.replica()
        if replica is None or self.rebuilt:
            return
        record: dict[str, Any] = replica._get_ddp_logging_data()  # noqa: SLF001 - torch has no public way
        known = str(record.get("rebuilt_per_bucket_param_indices", ""))
        self.rebuilt = bool(known)
        ready = _numbers(known or str(record.get(_READY, "")))
        if ready != self.ready or not self.order:
            self.ready = ready
            self.order = self._order(replica)
            self.known.clear()

    def take(self, tensor: torch.Tensor, graph: int) -> tuple[int, tuple[str, ...]] | None:
        """The number and the parameters of the bucket that `tensor` is; None if it is none of this one."""
        if graph != self.graph:
            if not self._next(self.order, tensor)[0]:
                return None
            self.graph, self.bucket, self.left = graph, 0, self.order
        run, self.left = self._next(self.left, tensor)
        if not run:
            return None
        self.bucket += 1
        return self.bucket - 1, run

    def _next(
        self, left: list[Parameter], tensor: torch.Tensor
    ) -> tuple[tuple[str, ...], list[Parameter]]:
        """The run that a tensor is, and what is left then; known of each step but the first."""
        key = id(left), tensor.numel(), tensor.dtype
        known = self.known.get(key)
        if known is None or known[0] is not left:
            run = _run(left, tensor)
            taken = set(run)
            after = [each for each in left if each[0] not in taken] if run else left
            known = self.known[key] = left, run, after
        return known[1:]

    def _order(self, replica: DistributedDataParallel) -> list[Parameter]:
        ignored: set[str] = getattr(replica, "parameters_to_ignore", set())
        own = [
            (name, parameter.numel(), parameter.dtype)
            for name, parameter in replica.module.named_parameters()
            if parameter.requires_grad and name not in ignored
        ]
        if sorted(self.ready) == list(range(len(own))):
            return [own[index] for index in self.ready]
        return own[::-1]


@dataclass(slots=True)
class Reducers:
    """Those of all DDP modules that have run."""

    made: dict[int, Reducer] = field(default_factory=dict)

    def refresh(self, replica: DistributedDataParallel) -> None:
        """A DDP module has ended a forward."""
        known = self.made.get(id(replica))
        if known is None or known.replica() is not replica:
            known = self.made[id(replica)] = Reducer(weakref.ref(replica))
        known.refresh()

    def take(self, tensor: torch.Tensor, models: Models) -> tuple[int | None, str] | None:
        """Bucket and unit(s) of a tensor that a reducer reduces; None if there is no reducer."""
        graph = current_graph()
        for reducer in self.made.values():
            taken = reducer.take(tensor, graph)
            if taken is not None:
                return taken[0], models.units_of_paths(taken[1])
        # The bitmap of used parameters, or a bucket that nobody can tell the parts of.
        return (None, "") if self.made else None


def _run(order: list[Parameter], tensor: torch.Tensor) -> tuple[str, ...]:
    """The first parameters in `order` of the tensor's dtype that have as many elements; else nothing."""
    names, elements, wanted = [], 0, tensor.numel()
    for name, numel, dtype in order:
        if dtype is tensor.dtype:
            names.append(name)
            elements += numel
            if elements >= wanted:
                break
    return tuple(names) if elements == wanted else ()


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.replace(",", " ").split()]
