"""What torch itself can record, beside the tracer: its profiler and its flight recorder.

Each writes into a directory of its own beside the files of the ranks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from zerosim_runtime.tracing.hook import EXTRAS_VARIABLE
from zerosim_runtime.tracing.tracer import Tracer

KINETO: Final = "kineto"
FLIGHT_RECORDER: Final = "flight-recorder"


def wanted(name: str) -> bool:
    """Whether the launcher asked for an extra."""
    return name in os.environ.get(EXTRAS_VARIABLE, "").split(",")


def start_extras(tracer: Tracer) -> Callable[[], None]:
    """Start what was asked for; the returned function writes it down."""
    stops = [
        start(tracer, directory)
        for name, start in ((KINETO, _kineto), (FLIGHT_RECORDER, _flight_recorder))
        if wanted(name)
        for directory in [_made(tracer.directory / name)]
    ]

    def stop() -> None:
        for each in stops:
            each()

    return stop


def _kineto(tracer: Tracer, directory: Path) -> Callable[[], None]:
    """torch.profiler over the steps that are kept, one Chrome trace a rank."""
    profiler: Any = torch.profiler.profile(record_shapes=True)
    first, last = tracer.steps or (1, None)
    state = ["before"]

    def start() -> None:
        if state[0] == "before":
            profiler.start()
            state[0] = "running"

    def stop() -> None:
        if state[0] == "running":
            state[0] = "done"
            profiler.stop()
            profiler.export_chrome_trace(str(directory / f"rank-{tracer.rank}.json"))

    def after(step: int) -> None:
        if step == first - 1:
            start()
        elif step == last:
            stop()

    tracer.watchers.append(after)
    if first == 1:
        start()
    return stop


def _flight_recorder(tracer: Tracer, directory: Path) -> Callable[[], None]:
    def stop() -> None:
        c10d: Any = torch._C._distributed_c10d  # noqa: SLF001 - torch has no public way
        content = c10d._dump_fr_trace_json()  # noqa: SLF001 - same
        text = content if isinstance(content, bytes) else str(content).encode()
        (directory / f"rank-{tracer.rank}.json").write_bytes(text)

    return stop


def _made(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    return directory
