"""Writes down what an engine does: every c10d call, and where each layer's kernels begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim_runtime.equality.seen import Seen

_CALLS: Final[dict[str, tuple[Kind, int]]] = {
    "allreduce_": (Kind.ALL_REDUCE, 0),
    "allreduce_coalesced_": (Kind.ALL_REDUCE, 0),
    "allgather_": (Kind.ALL_GATHER, 0),
    "_allgather_base_": (Kind.ALL_GATHER, 0),
    "allgather_coalesced_": (Kind.ALL_GATHER, 0),
    "allgather_into_tensor_coalesced_": (Kind.ALL_GATHER, 0),
    "reduce_scatter_": (Kind.REDUCE_SCATTER, 1),
    "_reduce_scatter_base_": (Kind.REDUCE_SCATTER, 1),
    "reduce_scatter_tensor_coalesced_": (Kind.REDUCE_SCATTER, 1),
    "reduce_": (Kind.REDUCE, 0),
    "broadcast_": (Kind.BROADCAST, 0),
    "alltoall_": (Kind.ALL_TO_ALL, 1),
    "alltoall_base_": (Kind.ALL_TO_ALL, 1),
}
"""Each c10d call: what it is, and which argument is the full tensor (or the list of its pieces)."""
_Mode: Any = TorchDispatchMode


@dataclass(slots=True)
class Record:
    """The rows of one rank; the training loop sets `step` and `micro_batch` as it goes."""

    step: int = 1
    micro_batch: int = 0
    seen: list[Seen] = field(default_factory=list)

    def begun(self, layer: str) -> None:
        """A layer begins its forward; within autograd it is a recomputation."""
        again = torch._C._current_graph_task_id() != -1  # noqa: SLF001 - torch has no public way
        self._mark(Kind.RECOMPUTE if again else Kind.FORWARD, layer)

    def begun_backward(self, layer: str) -> None:
        """A layer begins its backward."""
        self._mark(Kind.BACKWARD, layer)

    def collective(self, call: str, arguments: Sequence[Any]) -> None:
        """A c10d call. Raises RuntimeFailedError for one that we do not know."""
        if call not in _CALLS:
            raise RuntimeFailedError(
                f"the engine calls '{call}', which is not watched: add it to _CALLS"
            )
        kind, position = _CALLS[call]
        tensors = list(_tensors(arguments[position]))
        dtype = str(tensors[0].dtype).removeprefix("torch.")
        elements = sum(t.numel() for t in tensors)
        row = Seen(self.step, self.micro_batch, kind.value, elements, dtype, _ranks_of(arguments))
        self.seen.append(row)

    def _mark(self, kind: Kind, layer: str) -> None:
        self.seen.append(Seen(self.step, self.micro_batch, kind.value, unit=layer))


def mark(record: Record, layer: str, x: torch.Tensor) -> torch.Tensor:
    """The identity as the last op of a layer: its backward is the first of the layer's kernels."""
    apply: Callable[..., torch.Tensor] = _Mark.apply
    return apply(x, record, layer)


class _Mark(torch.autograd.Function):
    """See `mark`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, record: Record, layer: str) -> torch.Tensor:  # noqa: ANN401 - torch's context
        # Under activation checkpointing the saved tensor is what is recomputed, so R comes before B.
        ctx.save_for_backward(x.detach())
        ctx.record, ctx.layer = record, layer
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # noqa: ANN401 - same
        _ = ctx.saved_tensors
        ctx.record.begun_backward(ctx.layer)
        return gradients[0], None, None


@contextmanager
def watching(record: Record) -> Iterator[None]:
    """Write down every collective of this process while the context lasts."""
    with _Calls(record):
        yield


class _Calls(_Mode):  # type: ignore[misc] # torch has no types for it
    """Sees each op before it is dispatched, also those that engines issue from C++."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - torch's protocol
        types: Any,  # noqa: ANN401 - same
        args: tuple[Any, ...] = (),
        kwargs: Any = None,  # noqa: ANN401 - same
    ) -> Any:  # noqa: ANN401 - same
        if func.namespace in ("c10d", "_c10d_functional"):
            self.record.collective(func._schema.name.split("::")[1], args)  # noqa: SLF001 - no public way
        return func(*args, **(kwargs or {}))


def _tensors(argument: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401 - a tensor or nested lists of them
    if isinstance(argument, torch.Tensor):
        yield argument
    else:
        for part in argument:
            yield from _tensors(part)


def _ranks_of(arguments: Sequence[Any]) -> tuple[int, ...]:
    """The ranks of the process group among the arguments, which always stands first of its like."""
    boxed: Any = next(a for a in arguments if isinstance(a, torch.ScriptObject))
    groups: Any = dist.ProcessGroup  # untyped
    return tuple(dist.get_process_group_ranks(groups.unbox(boxed)))
