"""What a collective of a program is, from the op, the frames above it and the tensors it moves."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch.distributed as dist

from zerosim.kinds import PREFIX, Kind
from zerosim_runtime.ring import Ring
from zerosim_runtime.tracing.asked import (
    GROUP_AT,
    Arguments,
    Asked,
    pieces_of,
    read,
    sent_bytes,
    title_of,
)
from zerosim_runtime.tracing.callers import Callers
from zerosim_runtime.tracing.compute import Compute
from zerosim_runtime.tracing.device_times import DeviceTimes
from zerosim_runtime.tracing.groups import Groups, Seen, backend_of
from zerosim_runtime.tracing.interpose import Proceed
from zerosim_runtime.tracing.labels import Label, current_label
from zerosim_runtime.tracing.models import Models
from zerosim_runtime.tracing.pending import Call, Pending
from zerosim_runtime.tracing.replicas import Reducers
from zerosim_runtime.tracing.spans import Span
from zerosim_runtime.tracing.steps import Steps
from zerosim_runtime.tracing.worker_times import WorkerTimes, in_backward

_unbox: Final[Any] = dist.ProcessGroup.unbox
_work: Final[Any] = dist.Work
_now: Final = time.perf_counter_ns
_DRAIN_EVERY: Final = 256
_SILENT: Final = ("send", "recv_", "recv_any_source_")
_REDUCING: Final = (Kind.REDUCE_SCATTER, Kind.ALL_REDUCE)


@dataclass(slots=True)
class Watcher:
    """Sees every collective of a process, and has each timed. `unseen`: how deep this thread is in
    talk of the tracer's own; `problems`: what could not be understood, and was carried out all the same.
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
    unseen: threading.local = field(default_factory=threading.local)
    drained_at: int = 0
    problems: list[str] = field(default_factory=list)
    sample: Callable[[], None] = lambda: None
    device: DeviceTimes = field(default_factory=DeviceTimes)

    def watch(self, op: str, args: Arguments, proceed: Proceed) -> Any:  # noqa: ANN401 - the op's own
        """Note a collective, and carry it out."""
        if getattr(self.unseen, "depth", 0):
            return proceed()
        try:
            call = self._call(op, args)
        except Exception as error:  # noqa: BLE001 - the program must not break for its tracer
            self.problems.append(f"{op}: {error}")
            return proceed()
        try:
            with self.times.around(call.number, call.span.issued_ns):
                result = proceed()
        except BaseException:
            self._failed(call)
            raise
        self._issued(call, result)
        return result

    def drain(self) -> None:
        """Take over the times of what has ended, if nothing is under way that would lose its own."""
        if self.times.here() and not in_backward() and self.pending.sweep():
            self.pending.settle(self.times.drain())
            self.drained_at = next(self.numbers)

    def _call(self, op: str, args: Arguments) -> Call:
        group = _unbox(args[GROUP_AT[op]])
        seen, label = self.groups.of(group), current_label()
        asked = read(op, args, group)
        device = "cpu" if asked.tensor is None else asked.tensor.device.type
        label = self._labelled(label, asked)
        number = next(self.numbers)
        if number - self.drained_at > _DRAIN_EVERY:
            self.drain()
        backend = backend_of(seen, group, device)
        span = self._span(asked, seen, label, backend)
        slot = self.ring.issue(
            span.group or "", span.seq or 0, span.kind, span.unit, span.issued_ns, span.elements
        )
        silent = op in _SILENT or asked.kind is Kind.REDUCE_SCATTER
        queue = None if asked.kind is Kind.P2P else seen.name
        timing = self.device.begin(op, args, asked.tensor, backend, queue)
        return Call(
            number,
            span,
            slot,
            awaited=timing is None and (self.times.here() or self.times.elsewhere()),
            silent=silent,
            title=title_of(op),
            n_ranges=pieces_of(op, args),
            timing=timing,
        )

    def _labelled(self, label: Label, asked: Asked) -> Label:
        """The label with what it leaves open; see Note [The unit of a collective]."""
        if label.unit is not None:
            return label
        bucket, unit = self._owner(asked)
        return Label(
            unit=unit,
            bucket=bucket if label.bucket is None else label.bucket,
            kind=label.kind,
            elements=label.elements,
            stream=label.stream,
        )

    def _owner(self, asked: Asked) -> tuple[int | None, str | None]:
        """The bucket and the unit that a call serves."""
        backward = in_backward()
        found = self.callers.find(backward=backward)
        if found.reducer and asked.tensor is not None:
            taken = self.reducers.take(asked.tensor, self.models)
            if taken is not None:
                return taken
        if found.unit is not None and backward and asked.kind in _REDUCING:
            self.compute.reduced()
        if found.unit:
            return found.bucket, found.unit
        if asked.tensor is not None:
            unit = self.models.unit_of_tensor(asked.tensor, self.steps.step)
            if unit is not None:
                return found.bucket, unit
        if found.unit is not None:
            return found.bucket, found.unit
        return found.bucket, self.compute.unit() or found.function

    def _span(self, asked: Asked, seen: Seen, label: Label, backend: str) -> Span:
        kind = label.kind or asked.kind
        elements = asked.elements if label.elements is None else label.elements
        nbytes = asked.nbytes
        if label.elements is not None and asked.tensor is not None:
            nbytes = label.elements * asked.tensor.element_size()
        group, seq = self._place(asked, seen)
        return Span(
            kind=kind.value,
            name=_name(kind, asked, seen, label),
            stream=label.stream or (f"{seen.name} p2p" if kind is Kind.P2P else seen.name),
            unit=label.unit,
            step=self.steps.step,
            micro_batch=self.steps.micro_batch,
            group=group,
            seq=seq,
            elements=elements,
            nbytes=nbytes,
            wire_bytes=sent_bytes(asked, seen.rank, seen.size, backend),
            dtype=asked.dtype,
            bucket=label.bucket,
            issued_ns=_now(),
        )

    def _place(self, asked: Asked, seen: Seen) -> tuple[str, int | None]:
        """The group of a call and its number there; a message belongs to the pair of its two ends."""
        if asked.kind is not Kind.P2P:
            return seen.name, seen.count("")
        if asked.peer is None:
            return seen.name, None
        ends = (seen.rank, asked.peer) if asked.sends else (asked.peer, seen.rank)
        ranks = [seen.global_rank(member) for member in ends]
        name = f"{seen.name} {ranks[0]}>{ranks[1]}"
        self.groups.announce(name, ranks)
        return name, seen.count(name)

    def _issued(self, call: Call, result: Any) -> None:  # noqa: ANN401 - the op's own
        work = result[-1] if isinstance(result, tuple) else result
        if call.timing is not None:
            call.timing.issued()
            call.work = None if work is None else _work.unbox(work)
        elif work is None:
            call.start_ns, call.end_ns, call.awaited = call.span.issued_ns, _now(), False
        else:
            call.work = _work.unbox(work)
        self.pending.put(call)
        if work is not None and not self.times.here():
            self.pending.call_back(call)
        self.pending.sweep()
        self.sample()

    def _failed(self, call: Call) -> None:
        """It was asked for, and never begun."""
        call.awaited, call.timing = False, None
        self.pending.put(call)


def _name(kind: Kind, asked: Asked, seen: Seen, label: Label) -> str:
    if kind is Kind.P2P:
        peer = "?" if asked.peer is None else seen.global_rank(asked.peer)
        return f"send>{peer}" if asked.sends else f"recv<{peer}"
    word = PREFIX.get(kind, kind.value)
    return f"{word}{label.bucket if label.bucket is not None else label.unit or ''}"
