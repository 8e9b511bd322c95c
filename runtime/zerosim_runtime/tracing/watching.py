"""What a collective of a program is, from the op, the frames above it and the tensors it moves.

# Note [Little per collective]
Between two collectives a model computes for milliseconds, and its matrices push our code out of the
processor's caches: each line that runs at a call is paid several times over. So a call only notes what is
gone later (the frames above it, its tensors); what calls of one sort share is found out once, and spans
are made when the worker's times are read, many at a time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.distributed as dist

from zerosim.kinds import Kind
from zerosim_runtime.ring import Ring
from zerosim_runtime.tracing.asked import GROUP_AT, Arguments, Asked, Sort, read, single, sort_of
from zerosim_runtime.tracing.callers import Callers
from zerosim_runtime.tracing.calls import Call
from zerosim_runtime.tracing.compute import Compute
from zerosim_runtime.tracing.device_times import DeviceTimes
from zerosim_runtime.tracing.groups import Groups, Seen, backend_of
from zerosim_runtime.tracing.interpose import Proceed
from zerosim_runtime.tracing.labels import current_label
from zerosim_runtime.tracing.models import Models
from zerosim_runtime.tracing.pending import Pending
from zerosim_runtime.tracing.replicas import Reducers
from zerosim_runtime.tracing.steps import Steps
from zerosim_runtime.tracing.worker_times import WorkerTimes, in_backward

_unbox: Final[Any] = dist.ProcessGroup.unbox
_work: Final[Any] = dist.Work
_now: Final = time.perf_counter_ns
_DRAIN_EVERY: Final = 256
_SHARE: Final = 500
"""Reading the workers' times at the end of steps takes at most one part in so many of all time."""
_REDUCING: Final = (Kind.REDUCE_SCATTER, Kind.ALL_REDUCE)


@dataclass(slots=True)
class Watcher:
    """Sees every collective of a process, and has each timed.

    `problems`: what could not be understood, and was carried out all the same.
    """

    groups: Groups
    models: Models
    callers: Callers
    steps: Steps
    compute: Compute
    pending: Pending
    times: WorkerTimes
    ring: Ring
    reducers: Reducers
    numbers: Iterator[int] = field(default_factory=itertools.count)
    drained_at: int = 0
    due_ns: int = 0
    problems: list[str] = field(default_factory=list)
    sample: Callable[[], None] | None = None
    device: DeviceTimes = field(default_factory=DeviceTimes)

    def watch(self, op: str, args: Arguments, proceed: Proceed) -> Any:  # noqa: ANN401 - the op's own
        """Note a collective, and carry it out."""
        timed = self.times.here()
        try:
            call = self._call(op, args, timed=timed)
        except Exception as error:  # noqa: BLE001 - the program must not break for its tracer
            self.problems.append(f"{op}: {error}")
            return proceed()
        try:
            if timed:
                result = self.times.carry_out(call.number, call.issued_ns, proceed)
            else:
                result = proceed()
        except BaseException:
            # It was asked for, and never begun.
            call.awaited, call.timing = False, None
            self.pending.put(call)
            raise
        self._issued(call, result, timed=timed)
        return result

    def drain(self) -> None:
        """Take over the times of what has ended, if nothing is under way that would lose its own."""
        if self.times.here() and not in_backward() and self.pending.sweep():
            began = _now()
            self.pending.settle(self.times.drain())
            self.drained_at = next(self.numbers)
            ended = _now()
            self.due_ns = ended + _SHARE * (ended - began)

    def _call(self, op: str, args: Arguments, *, timed: bool) -> Call:
        group = _unbox(args[GROUP_AT[op]])
        seen, label = self.groups.of(group), current_label()
        sort, tensor = self._sort(op, args, group, seen)
        asked, bucket, unit = sort.asked, label.bucket, label.unit
        if unit is None:
            found, unit = self._owner(asked.kind, tensor)
            bucket = found if bucket is None else bucket
        number = next(self.numbers)
        if number - self.drained_at > _DRAIN_EVERY:
            self.drain()
        if asked.kind is Kind.P2P:
            place, seq = self._pair(asked, seen)
        else:
            place, seq = seen.name, seen.count("")
        kind = label.kind or asked.kind
        elements = asked.elements if label.elements is None else label.elements
        step, micro_batch = self.steps.step, self.steps.micro_batch
        now = _now()
        slot = self.ring.issue(place, seq or 0, kind.value, unit, now, elements)
        timing = None
        if tensor is not None and tensor.is_cuda:
            queue = None if asked.kind is Kind.P2P else seen.name
            timing = self.device.begin(op, args, tensor, sort.backend, queue)
        awaited = timing is None and (timed or self.times.elsewhere())
        return Call(
            number,
            now,
            sort,
            seen,
            label,
            place,
            seq,
            unit,
            bucket,
            step,
            micro_batch,
            slot,
            awaited,
            timing=timing,
        )

    def _sort(
        self,
        op: str,
        args: Arguments,
        group: Any,  # noqa: ANN401 - an unboxed ProcessGroup
        seen: Seen,
    ) -> tuple[Sort, torch.Tensor | None]:
        """Of which sort a call is, and its first tensor."""
        tensor = single(op, args)
        if tensor is None:
            return _new_sort(op, args, group, seen)
        root = args[2] if op == "broadcast_" else None
        key = op, root, tensor.numel(), tensor.dtype, tensor.layout, tensor.device
        sort = seen.sorts.get(key)
        if sort is None:
            sort = seen.sorts[key] = _new_sort(op, args, group, seen)[0]
        return sort, None if sort.asked.elements is None else tensor

    def _owner(self, kind: Kind, tensor: torch.Tensor | None) -> tuple[int | None, str | None]:
        """The bucket and the unit that a call serves; see Note [The unit of a collective]."""
        backward = in_backward()
        found = self.callers.find(backward=backward)
        if found.reducer and tensor is not None:
            taken = self.reducers.take(tensor, self.models)
            if taken is not None:
                return taken
        if found.unit is not None and backward and kind in _REDUCING:
            self.compute.reduced()
        if found.unit:
            return found.bucket, found.unit
        if tensor is not None:
            unit = self.models.unit_of_tensor(tensor, self.steps.step)
            if unit is not None:
                return found.bucket, unit
        if found.unit is not None:
            return found.bucket, found.unit
        return found.bucket, self.compute.unit() or found.function

    def _pair(self, asked: Asked, seen: Seen) -> tuple[str, int | None]:
        """The pair of a message's two ends, and its number there."""
        if asked.peer is None:
            return seen.name, None
        ends = (seen.rank, asked.peer) if asked.sends else (asked.peer, seen.rank)
        ranks = [seen.global_rank(member) for member in ends]
        name = f"{seen.name} {ranks[0]}>{ranks[1]}"
        self.groups.announce(name, ranks)
        return name, seen.count(name)

    def _issued(self, call: Call, result: Any, *, timed: bool) -> None:  # noqa: ANN401 - the op's own
        work = result[-1] if isinstance(result, tuple) else result
        if call.timing is not None:
            call.timing.issued()
            call.work = None if work is None else _work.unbox(work)
        elif work is None:
            call.start_ns, call.end_ns, call.awaited = call.issued_ns, _now(), False
        else:
            call.work = _work.unbox(work)
        self.pending.put(call)
        if work is not None and not timed:
            self.pending.call_back(call)
        if call.timing is not None:
            self.pending.sweep()
        if self.sample is not None:
            self.sample()


def _new_sort(
    op: str,
    args: Arguments,
    group: Any,  # noqa: ANN401 - an unboxed ProcessGroup
    seen: Seen,
) -> tuple[Sort, torch.Tensor | None]:
    asked = read(op, args, group)
    device = "cpu" if asked.tensor is None else asked.tensor.device.type
    backend = backend_of(seen, group, device)
    return sort_of(op, args, asked, (seen.rank, seen.size), backend), asked.tensor
