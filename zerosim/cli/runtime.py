"""The modules of the real runtime by name: torch is an extra, and the simulator stands without it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from zerosim.errors import InputError


def runtime(module: str) -> Any:  # noqa: ANN401 - a module
    """A module of `zerosim_runtime`. Raises InputError if what it needs is not installed."""
    try:
        return import_module(f"zerosim_runtime.{module}")
    except ModuleNotFoundError as error:
        raise InputError(
            f"real ranks need '{error.name}', which is not installed: "
            "pip install torch, then zerosim[runtime]"
        ) from None
