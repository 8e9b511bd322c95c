"""What this machine can do for real ranks: cores, GPUs, backend, clock, and whether it can be a lab."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from zerosim_runtime.capacity import available_bytes
from zerosim_runtime.lab.commands import LabError
from zerosim_runtime.lab.links import congestion_control, open_lab
from zerosim_runtime.lab.shape import Shape

_GPUS = Path("/proc/driver/nvidia/gpus")
_TRIED = Shape(nodes=2, ranks_per_node=1, inter=25e6)


@dataclass(frozen=True, slots=True)
class Machine:
    """`torch` None: not installed. `lab`: root, user namespace or paced, if it must do without links.

    `why`: what stands against namespaces, None if nothing does. `clock_ns`: its resolution.
    """

    cores: int
    memory_bytes: int | None
    gpus: int
    torch: str | None
    backend: str
    threads_of_two_ranks: int
    clock_ns: float
    lab: str
    why: str | None
    latency: bool
    congestion_control: str


def look() -> Machine:
    """Look at this machine; makes a lab of two nodes for a moment, if it can."""
    cores = len(os.sched_getaffinity(0))
    gpus = len(list(_GPUS.iterdir())) if _GPUS.is_dir() else 0
    lab, why = _lab(_TRIED)
    return Machine(
        cores=cores,
        memory_bytes=available_bytes(),
        gpus=gpus,
        torch=_torch(),
        backend="nccl" if gpus else "gloo",
        threads_of_two_ranks=max(1, cores // 2),
        clock_ns=time.get_clock_info("perf_counter").resolution * 1e9,
        lab=lab,
        why=why,
        latency=why is None and _lab(Shape(1, 1, 25e6, latency_s=1e-3))[1] is None,
        congestion_control=congestion_control() or "as it is",
    )


def obstacle() -> str | None:
    """What stands against network namespaces here; None: nothing."""
    return _lab(_TRIED)[1]


def _lab(shape: Shape) -> tuple[str, str | None]:
    try:
        with open_lab(shape) as lab:
            return ("user namespace" if "--user" in lab.switch.prefix else "root"), None
    except LabError as error:
        return "paced", str(error)


def _torch() -> str | None:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None
