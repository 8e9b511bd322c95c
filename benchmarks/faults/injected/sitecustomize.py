"""Plants a fault into one rank of a plan: Python imports this when it starts.

`FAULT=NAME:RANK:STEP` says what to plant; the file `FAULT_MARK` is made when the fault strikes.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final


def _strike() -> None:
    Path(os.environ["FAULT_MARK"]).touch()


def _hang() -> None:
    _strike()
    while True:
        time.sleep(3600)


def _spin() -> None:
    _strike()
    while True:
        pass


def _slow() -> None:
    _strike()
    time.sleep(1.5)


def _raise() -> None:
    _strike()
    raise ValueError("no luck")


FAULTS: Final[dict[str, Callable[[], None]]] = {
    "hang": _hang,
    "spin": _spin,
    "slow": _slow,
    "raise": _raise,
}


def _plant(name: str, at: int) -> None:
    rank = vars(importlib.import_module("zerosim_runtime.rank"))
    train_step = rank["train_step"]

    def faulty(execution: Any, model: Any, batches: Any, step: int) -> Any:  # noqa: ANN401 - as train_step
        if step == at or (name == "slow" and step > at):
            if name == "shapes":
                _narrow(type(next(iter(execution.rank.communicators.values()))))
            else:
                FAULTS[name]()
        return train_step(execution, model, batches, step)

    rank["train_step"] = faulty


def _narrow(communicator: Any) -> None:  # noqa: ANN401 - a class
    """From now on this rank's reduce-scatters are of fewer elements than those of the others."""
    issue = communicator.issue

    def narrowed(self: Any, kind: str, name: str, output: Any, source: Any) -> Any:  # noqa: ANN401 - as issue
        if kind == "reduce_scatter":
            _strike()
            ranks = source.numel() // output.numel()
            output, source = output[:-1], source[:-ranks]
        return issue(self, kind, name, output, source)

    communicator.issue = narrowed


if "RANK" in os.environ and "FAULT" in os.environ:
    fault, wanted, step = os.environ["FAULT"].split(":")
    if os.environ["RANK"] == wanted:
        if fault == "absent":
            _hang()
        _plant(fault, int(step))
