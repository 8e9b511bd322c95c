"""Tracing of any torch.distributed program: what it asks of its ranks, and when it got it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from os import PathLike
from typing import cast


def trace(run: str | PathLike[str], steps: str | None = None) -> AbstractContextManager[None]:
    """Trace the block: `with tracing.trace("RUN"): train()`, in every rank (see `tracing.here`).

    `steps`: the first and the last to keep, as `3:5`.
    """
    # By name: whoever reads records needs no torch.
    here = import_module("zerosim_runtime.tracing.here")
    return cast("AbstractContextManager[None]", here.traced(run, steps))
