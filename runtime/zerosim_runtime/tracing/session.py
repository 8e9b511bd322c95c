"""Tracing of this process, from `start` to `stop`: every collective, each unit's compute, each step."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch.distributed as dist

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import PREFIX, Kind
from zerosim_runtime.ring import Ring
from zerosim_runtime.tracing.asked import GROUP_AT, Arguments, Asked, read, sent_bytes
from zerosim_runtime.tracing.groups import Groups, Seen, backend_of
from zerosim_runtime.tracing.interpose import Proceed, interpose
from zerosim_runtime.tracing.labels import Label, current_label
from zerosim_runtime.tracing.pending import Call, Pending
from zerosim_runtime.tracing.spans import Span
from zerosim_runtime.tracing.steps import Steps
from zerosim_runtime.tracing.worker_times import WorkerTimes, in_backward

_unbox: Final[Any] = dist.ProcessGroup.unbox
_work: Final[Any] = dist.Work
_now: Final = time.perf_counter_ns
_SWITCH_S: Final = 1e-4
_DRAIN_EVERY: Final = 256
_SWEEP_S: Final = 0.5
_SILENT: Final = ("send", "recv_", "recv_any_source_")


class Tracer(Protocol):
    """Where a session puts what it sees (`zerosim_runtime.tracing.tracer`)."""

    ring: Ring

    def add(self, span: Span) -> None:
        """Note an op."""

    def sample(self, time_ns: int, counter: str, value: int) -> None:
        """From `time_ns` on, `counter` has `value`."""

    def group(self, name: str, ranks: Sequence[int]) -> None:
        """Note a process group."""

    def step(self, step: int, start_ns: int, end_ns: int) -> None:
        """Note a step that has ended."""

    def flush(self) -> None:
        """Write what was added."""


@dataclass(slots=True)
class Session:
    """What traces this process. `unseen`: how deep in work of the tracer's own this thread is."""

    tracer: Tracer
    groups: Groups
    steps: Steps
    pending: Pending
    times: WorkerTimes
    ends: ExitStack = field(default_factory=ExitStack)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    unseen: threading.local = field(default_factory=threading.local)
    drained_at: int = 0
    problems: list[str] = field(default_factory=list)

    def watch(self, op: str, args: Arguments, proceed: Proceed) -> Any:  # noqa: ANN401 - the op's own
        """Note a collective, and carry it out."""
        if getattr(self.unseen, "depth", 0):
            return proceed()
        try:
            call = self._call(op, args)
        except Exception as error:  # noqa: BLE001 - the program must not break for its tracer
            self.problems.append(f"{op}: {error}")
            return proceed()
        with self.times.around(call.number, call.span.issued_ns) if call.awaited else nullcontext():
            result = proceed()
        self._issued(call, result)
        return result

    def drain(self) -> None:
        """Take over the times of what has ended, if nothing is under way that would lose its own."""
        if self.times.here() and self.pending.sweep() and not in_backward():
            self.pending.settle(self.times.drain())
            self.drained_at = next(self.numbers)

    def close(self) -> None:
        """Stop, and add what is left."""
        self.ends.close()
        self.pending.sweep()
        if self.times.here():
            self.pending.settle(self.times.stop())
        self.pending.close()
        self.steps.close()
        self.tracer.flush()

    def _call(self, op: str, args: Arguments) -> Call:
        group = _unbox(args[GROUP_AT[op]])
        seen, label = self.groups.of(group), current_label()
        asked = read(op, args, group)
        device = "cpu" if asked.tensor is None else asked.tensor.device.type
        backend = backend_of(seen, group, device)
        span = self._span(asked, seen, label, backend)
        number = next(self.numbers)
        if number - self.drained_at > _DRAIN_EVERY:
            self.drain()
        slot = self.tracer.ring.issue(
            span.group or "", span.seq or 0, span.kind, span.unit, span.issued_ns
        )
        silent = op in _SILENT or asked.kind is Kind.REDUCE_SCATTER
        return Call(number, span, slot, awaited=self.times.here(), silent=silent)

    def _span(self, asked: Asked, seen: Seen, label: Label, backend: str) -> Span:
        kind = label.kind or asked.kind
        elements = asked.elements if label.elements is None else label.elements
        nbytes = asked.nbytes
        if label.elements is not None and asked.tensor is not None:
            nbytes = label.elements * asked.tensor.element_size()
        unit, bucket = label.unit, label.bucket
        group, seq = self._place(asked, seen)
        return Span(
            kind=kind.value,
            name=_name(kind, asked, seen, unit, bucket),
            stream=label.stream or (f"{seen.name} p2p" if kind is Kind.P2P else seen.name),
            unit=unit,
            step=self.steps.step,
            micro_batch=self.steps.micro_batch,
            group=group,
            seq=seq,
            elements=elements,
            nbytes=nbytes,
            wire_bytes=sent_bytes(asked, seen.rank, seen.size, backend),
            dtype=asked.dtype,
            bucket=bucket,
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
        if work is None:
            call.start_ns, call.end_ns, call.awaited = call.span.issued_ns, _now(), False
        else:
            call.work = _work.unbox(work)
        self.pending.put(call)
        if work is not None and not call.awaited:
            self.pending.call_back(call)
        self.pending.sweep()


def _name(kind: Kind, asked: Asked, seen: Seen, unit: str | None, bucket: int | None) -> str:
    if kind is Kind.P2P:
        peer = "?" if asked.peer is None else seen.global_rank(asked.peer)
        return f"send>{peer}" if asked.sends else f"recv<{peer}"
    word = PREFIX.get(kind, kind.value)
    return f"{word}{bucket if bucket is not None else unit or ''}"


_session: Session | None = None


def start(tracer: Tracer) -> None:
    """Trace this process from now on. Raises RuntimeFailedError if it is traced already."""
    global _session  # noqa: PLW0603 - a process is traced once
    if _session is not None:
        raise RuntimeFailedError("this process is traced already: stop that first")
    session = Session(
        tracer,
        Groups(tracer.group),
        Steps(tracer.step),
        Pending(tracer.add, tracer.ring),
        WorkerTimes(),
    )
    session.ends.callback(interpose(session.watch))
    switch = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    session.ends.callback(sys.setswitchinterval, switch)
    session.times.start()
    _session = session


def stop() -> None:
    """End the tracing of this process; nothing happens if it is not traced."""
    global _session
    session, _session = _session, None
    if session is not None:
        session.close()


@contextmanager
def unseen() -> Iterator[None]:
    """What this thread does inside is not traced: the talk of the tracer itself."""
    session = _session
    if session is None:
        yield
        return
    session.unseen.depth = getattr(session.unseen, "depth", 0) + 1
    try:
        yield
    finally:
        session.unseen.depth -= 1
