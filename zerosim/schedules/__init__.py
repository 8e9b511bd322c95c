"""The schedules there are, by name: each turns a workload into the plan of one rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from zerosim.registry import Registry
from zerosim.schedules.ddp import DdpOptions, ddp
from zerosim.schedules.zero1 import Zero1Options, zero1
from zerosim.schedules.zero2 import Zero2Options, zero2
from zerosim.schedules.zero3 import Zero3Options, zero3


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule family: its option record, and the function that writes its plan."""

    options: type[Any]
    write: Callable[..., Any]
    summary: str


SCHEDULES: Final = Registry(
    "schedule",
    {
        "ddp": Schedule(DdpOptions, ddp, "replicas; bucketed all-reduce"),
        "zero1": Schedule(Zero1Options, zero1, "optimizer states sharded"),
        "zero2": Schedule(Zero2Options, zero2, "optimizer states and gradients sharded"),
        "zero3": Schedule(Zero3Options, zero3, "parameters sharded too, gathered layer by layer"),
    },
)

__all__ = ["SCHEDULES", "Schedule"]
