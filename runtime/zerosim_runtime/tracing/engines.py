"""Which engine a program trains with, told from the objects that are alive while it does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Final

from zerosim_runtime.tracing.tracer import Tracer

_CLASSES: Final = (
    ("deepspeed", "deepspeed.runtime.engine", "DeepSpeedEngine"),
    ("zerosim", "zerosim_runtime.zero.trainer", "Trainer"),
    ("fsdp2", "torch.distributed.fsdp", "FSDPModule"),
    ("fsdp1", "torch.distributed.fsdp", "FullyShardedDataParallel"),
    ("zero-redundancy", "torch.distributed.optim", "ZeroRedundancyOptimizer"),
    ("ddp", "torch.nn.parallel", "DistributedDataParallel"),
)
"""Engines, the most telling first: a ZeroRedundancyOptimizer stands beside a DDP."""


def watch_for_engine(tracer: Tracer) -> Callable[[], None]:
    """Look for the engine at the end of the first step, or when the returned function is called."""
    told: list[str] = []

    def look(*_: object) -> None:
        found = None if told else detect()
        if found is not None:
            told.append(found)
            tracer.fact("engine", found)

    tracer.watchers.append(look)
    return look


def detect() -> str | None:
    """The engine whose objects are alive, or None if the program has none that is known."""
    known = {
        engine: getattr(sys.modules.get(module), name, None) for engine, module, name in _CLASSES
    }
    classes = {engine: found for engine, found in known.items() if isinstance(found, type)}
    alive = set(map(type, gc.get_objects()))
    return next(
        (
            engine
            for engine, wanted in classes.items()
            if any(issubclass(each, wanted) for each in alive)
        ),
        None,
    )
