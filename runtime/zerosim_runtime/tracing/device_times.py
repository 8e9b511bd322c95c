"""When a GPU began and ended each collective of a program: events of ours, and NCCL's own duration.

# Note [Times of NCCL]
A collective that is not asynchronous runs on its caller's stream (from torch 2.8 on): two events bracket
it. An asynchronous one runs on a stream of its group, behind all that the caller's stream has been given
and behind the group's collective before it. So it begins once both are done, and lasts as long as the two
events of its Work say, if TORCH_NCCL_ENABLE_TIMING is set. Nothing waits for anything here, least of all
for a Work: to wait would let its tensors go before the program's own stream is done with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import torch

from zerosim_runtime.cuda import Stamp, Stamps, stamps_of
from zerosim_runtime.tracing.asked import Arguments

_NCCL: Final = "nccl"
_NAMES: Final = ("async_op", "asyncOp")
_cuda: Final[Any] = torch.cuda  # untyped
_ops: Final[Any] = torch.ops.c10d


@dataclass(slots=True)
class Queue:
    """The collectives of a group that run one after the other: when the last one known ended."""

    free_ns: int = 0


@dataclass(slots=True)
class Timing:
    """One collective on a GPU. `ready`: its caller's stream has come to it; `ended`: and is past it."""

    ready: Stamp
    queue: Queue
    stamps: Stamps
    asynchronous: bool
    ended: Stamp | None = None

    def issued(self) -> None:
        """The call has returned."""
        if not self.asynchronous:
            self.ended = self.stamps()

    def over(self, work: Any | None) -> bool:  # noqa: ANN401 - torch's Work
        """Whether it has ended."""
        done = work is None or bool(work.is_completed())
        return done and (self.ended is None or self.ended.read() is not None)

    def times(self, work: Any | None) -> tuple[int, int] | None:  # noqa: ANN401 - torch's Work
        """Start and end, perf_counter ns, of one that is over; None: nobody says how long it took."""
        start, ended = self.ready.read(), None if self.ended is None else self.ended.read()
        if start is None:
            return None
        if not self.asynchronous:
            return None if ended is None else (start, ended)
        try:
            duration_ms = float(work._get_duration()) if work is not None else None  # noqa: SLF001 - torch has no public way
        except RuntimeError:  # timing is off, or the work is part of another one
            duration_ms = None
        if duration_ms is None or duration_ms < 0:
            return None
        start = max(start, self.queue.free_ns)
        self.queue.free_ns = start + round(duration_ms * 1e6)
        return start, self.queue.free_ns


@dataclass(slots=True)
class DeviceTimes:
    """Times collectives on GPUs; what runs on a CPU, or not on NCCL, is none of its business."""

    stamps: dict[torch.device, Stamps] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)

    def begin(
        self, op: str, args: Arguments, tensor: torch.Tensor | None, backend: str, group: str | None
    ) -> Timing | None:
        """Right before a call: what will tell its times. `group`: whose stream it runs on, None: its own."""
        if tensor is None or tensor.device.type != "cuda" or backend != _NCCL:
            return None
        if tensor.device.index != _cuda.current_device() or _cuda.is_current_stream_capturing():
            return None  # a graph records no times of ours
        if tensor.device not in self.stamps:
            self.stamps[tensor.device] = stamps_of(tensor.device)
        stamps = self.stamps[tensor.device]
        queue = Queue() if group is None else self.queues.setdefault(group, Queue())
        return Timing(stamps(), queue, stamps, is_asynchronous(op, args))


def is_asynchronous(op: str, args: Arguments) -> bool:
    """Whether a call of a c10d op runs on a stream of NCCL's own; older torch always does."""
    at = _asynchronous_at(op)
    return at is None or at >= len(args) or bool(args[at])


@cache
def _asynchronous_at(op: str) -> int | None:
    arguments: Sequence[Any] = getattr(_ops, op).default._schema.arguments  # noqa: SLF001 - torch has no public way
    return next((i for i, each in enumerate(arguments) if each.name in _NAMES), None)
