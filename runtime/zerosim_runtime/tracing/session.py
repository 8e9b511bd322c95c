"""Tracing of this process, from `start` to `stop`: every collective, each unit's compute, each step."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, Protocol

import torch

from zerosim.errors import RuntimeFailedError
from zerosim_runtime.ring import Ring
from zerosim_runtime.tracing.callers import Callers
from zerosim_runtime.tracing.compute import Compute
from zerosim_runtime.tracing.groups import Groups
from zerosim_runtime.tracing.interpose import interpose
from zerosim_runtime.tracing.models import Models
from zerosim_runtime.tracing.optimizers import Optimizers
from zerosim_runtime.tracing.pending import Pending
from zerosim_runtime.tracing.profilers import make_way
from zerosim_runtime.tracing.replicas import Reducers
from zerosim_runtime.tracing.spans import Span
from zerosim_runtime.tracing.steps import Steps
from zerosim_runtime.tracing.watching import Watcher
from zerosim_runtime.tracing.worker_times import WorkerTimes

_SWITCH_S: Final = 1e-4
_SWEEP_S: Final = 0.5
_COUNTERS: Final = (("memory.allocated", "allocated_bytes"), ("memory.reserved", "reserved_bytes"))


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
    """What traces this process; `ends` undoes it."""

    tracer: Tracer
    watcher: Watcher
    ends: ExitStack = field(default_factory=ExitStack)
    over: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        """Take over what has ended, and have it written down, if it was not done just before."""
        if time.perf_counter_ns() >= self.watcher.due_ns:
            self.watcher.drain()
            self.watcher.compute.hand_over()
            self.tracer.flush()

    def close(self) -> None:
        """Stop, and add what is left."""
        self.over.set()
        self.ends.close()
        watcher = self.watcher
        watcher.pending.sweep()
        if watcher.times.here():
            watcher.pending.settle(watcher.times.stop())
        watcher.pending.close()
        watcher.compute.hand_over()
        watcher.steps.close()
        self.tracer.flush()

    def sweep(self) -> None:
        """Note the ends of works also while the program is silent, until it is over."""
        while not self.over.wait(_SWEEP_S):
            self.watcher.pending.sweep()


_session: Session | None = None


def start(tracer: Tracer) -> None:
    """Trace this process from now on. Raises RuntimeFailedError if it is traced already."""
    global _session  # noqa: PLW0603 - a process is traced once
    if _session is not None:
        raise RuntimeFailedError("this process is traced already: stop that first")
    session = _assemble(tracer)
    watcher = session.watcher
    optimizers = Optimizers(tracer.add, watcher.steps, session.write)
    for undo in (
        interpose(watcher.watch),
        watcher.compute.hook(),
        optimizers.hook(),
        make_way(watcher.times, watcher.pending),
        _switch_often(),
    ):
        session.ends.callback(undo)
    watcher.times.start()
    threading.Thread(target=session.sweep, name="zerosim-sweep", daemon=True).start()
    _session = session


def stop() -> None:
    """End the tracing of this process; nothing happens if it is not traced."""
    global _session
    session, _session = _session, None
    if session is not None:
        session.close()


def current_ring() -> Ring | None:
    """The ring of the rank that this process is; None if it is not traced."""
    return None if _session is None else _session.tracer.ring


def problems() -> tuple[str, ...]:
    """What the session could not understand so far; nothing if this process is not traced."""
    return () if _session is None else tuple(_session.watcher.problems)


def _assemble(tracer: Tracer) -> Session:
    models, steps, times = Models(), Steps(tracer.step), WorkerTimes()
    reducers = Reducers()
    watcher = Watcher(
        groups=Groups(tracer.group),
        models=models,
        callers=Callers(models),
        steps=steps,
        compute=Compute(tracer.add, models, steps, reducers, beat=tracer.ring.beat),
        pending=Pending(tracer.add, tracer.ring),
        times=times,
        ring=tracer.ring,
        reducers=reducers,
    )
    session = Session(tracer, watcher)
    watcher.compute.at_step = session.write
    if torch.cuda.is_available():
        watcher.sample = watcher.compute.sample = lambda: _sample(tracer)
    return session


def _sample(tracer: Tracer) -> None:
    if torch.cuda.is_initialized():
        now = time.perf_counter_ns()
        # One question, not two: torch's own functions for each lay all its figures out flat first.
        held: dict[str, dict[str, dict[str, int]]] = torch.cuda.memory_stats_as_nested_dict()
        for counter, name in _COUNTERS:
            tracer.sample(now, counter, held.get(name, {}).get("all", {}).get("current", 0))


def _switch_often() -> Callable[[], None]:
    """Let threads have the GIL soon, so that an end is noted when it comes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    return lambda: sys.setswitchinterval(before)


def _in_child() -> None:
    """A forked child is not traced: its parent's session is none of its business."""
    global _session
    session, _session = _session, None
    if session is not None:
        session.ends.close()
        session.watcher.times.abandon()


os.register_at_fork(after_in_child=_in_child)
