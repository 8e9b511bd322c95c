"""A rank of a traced program, from the making of its process group to its exit."""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from zerosim_runtime.clock import clock_identity
from zerosim_runtime.tracing import ending, session
from zerosim_runtime.tracing.engines import watch_for_engine
from zerosim_runtime.tracing.extras import start_extras
from zerosim_runtime.tracing.hook import STEPS_VARIABLE, note_problem
from zerosim_runtime.tracing.offsets import measure
from zerosim_runtime.tracing.tracer import Tracer, open_tracer, steps_of


@dataclass(slots=True)
class Running:
    """What this process traces with: at the end, `stops` are called in turn."""

    tracer: Tracer
    directory: Path
    stops: list[Callable[[], None]] = field(default_factory=list)
    n_offsets: int = 0
    one_clock: bool = False


_running: list[Running] = []
"""The one of this process, if it is traced."""


def begin(directory: Path) -> None:
    """Start to trace: this process has become a rank. Raises OSError if it cannot be written down."""
    if _running or not dist.is_initialized():
        return
    tracer = open_tracer(
        directory, dist.get_rank(), _header(), steps_of(os.environ.get(STEPS_VARIABLE))
    )
    running = Running(tracer, directory)
    _running.append(running)
    ending.at_end(tracer, functools.partial(_leave, running))
    _carefully(running, lambda: _note_offsets(running))
    _carefully(running, lambda: running.stops.append(watch_for_engine(tracer)))
    _carefully(running, lambda: running.stops.append(start_extras(tracer)))
    running.stops.insert(0, functools.partial(_end_session, running))
    _carefully(running, lambda: session.start(tracer))


def end() -> None:
    """The program is about to give up its process group: note the clocks again while ranks can talk."""
    if _running and dist.is_initialized():
        running = _running[0]
        _carefully(running, lambda: _note_offsets(running))
        running.tracer.flush()


def finish(status: str, message: str) -> int | None:
    """Stop to trace before the process ends; returns the rank that this process was, if it was one."""
    if not _running:
        return None
    running = _running.pop()
    _leave(running, finished=status == "finished")
    running.tracer.close(status, message)
    return running.tracer.rank


def _leave(running: Running, finished: bool) -> None:
    if finished:
        _carefully(running, lambda: _note_offsets(running))
    _stop(running)


def _stop(running: Running) -> None:
    while running.stops:
        _carefully(running, running.stops.pop(0))


def _end_session(running: Running) -> None:
    for problem in session.problems():
        note_problem(running.directory, f"rank {running.tracer.rank}: {problem}")
    session.stop()


def _carefully(running: Running, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever its tracer cannot do
        problem = f"rank {running.tracer.rank}: {type(error).__name__}: {error}"
        note_problem(running.directory, problem)


def _note_offsets(running: Running) -> None:
    """At the start and at the end, so that a drift is seen. Ranks of one machine need none."""
    if running.one_clock or not dist.is_initialized() or _one_host():
        return
    running.n_offsets += 1
    c10d: Any = dist.distributed_c10d
    store = c10d.PrefixStore("zerosim", c10d._get_default_store())  # noqa: SLF001 - torch has no public way
    name = f"offsets/{running.n_offsets}"
    offsets = measure(store, dist.get_rank(), dist.get_world_size(), name)
    running.one_clock = offsets is None
    for offset in offsets or ():
        running.tracer.offset(offset)


def _one_host() -> bool:
    """Whether the launcher says that all ranks are on this host."""
    local = os.environ.get("LOCAL_WORLD_SIZE")
    return local is not None and int(local) == dist.get_world_size()


def _header() -> dict[str, Any]:
    backend = str(dist.get_backend())
    return {
        "rank": dist.get_rank(),
        "launch": _launch(),
        "world_size": dist.get_world_size(),
        "backend": "nccl" if "nccl" in backend else "gloo" if "gloo" in backend else backend,
        "device": _device(backend),
        "clock": clock_identity(),
        "perf_ns": time.perf_counter_ns(),
        "unix_ns": time.time_ns(),
        "host": platform.node(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "pid": os.getpid(),
        "steps": steps_of(os.environ.get(STEPS_VARIABLE)),
    }


def _launch() -> str:
    """The same for all ranks that were started together, and for no others."""
    place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    return os.environ.get("TORCHELASTIC_RUN_ID", place)


def _device(backend: str) -> str:
    """What the program computes on; a GPU that it has not woken is not woken by its tracer."""
    if torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    return "GPU" if "nccl" in backend else _cpu()


def _cpu() -> str:
    return f"CPU ({os.cpu_count()} cores, {platform.machine()})"
