"""How far off a simulated step may be: the errors of the measured runs that are nearest to it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
import orjson

from zerosim.hardware import MACHINES
from zerosim.hardware.devices import Datasheet
from zerosim.scenario import Scenario, machine_of, workload_of

MOST: Final = 9
"""So many nearest runs; more would reach further than they tell."""
LEAST: Final = 3
"""Fewer are an anecdote."""
REACH: Final = 4.0
"""Beyond this distance a run is not near: two doublings of GPUs and of parameters, say."""
_ENOUGH: Final = 5
"""With so many runs that nothing was fitted on, those that constants were fitted on are left out."""
_FAMILIES: Final = {
    "ddp": "DDP",
    "zero1": "ZeRO-1/2",
    "zero2": "ZeRO-1/2",
    "deepspeed-1": "ZeRO-1/2",
    "deepspeed-2": "ZeRO-1/2",
    "colossalai-1": "ZeRO-1/2",
    "colossalai-2": "ZeRO-1/2",
    "colossalai-1-old": "ZeRO-1/2",
    "colossalai-2-old": "ZeRO-1/2",
    "megatron": "ZeRO-1/2",
    "zero-redundancy": "ZeRO-1/2",
    "zero3": "FSDP/ZeRO-3",
    "deepspeed-3": "FSDP/ZeRO-3",
    "gemini": "FSDP/ZeRO-3",
    "fsdp1": "FSDP/ZeRO-3",
    "fsdp2": "FSDP/ZeRO-3",
}
"""Schedules that stand for each other: what they move, and when."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is compared. `devices` is GPUs; `checkpointing` the scenario's word; `device` its name."""

    family: str
    architecture: str
    device: str
    devices: int
    params: float
    seq: int
    checkpointing: str


@dataclass(frozen=True, slots=True)
class Near:
    """A measured run, how far it is from a scenario, and |ln(predicted / measured)| of its step."""

    row_id: str
    source_id: str
    source: str
    split: str
    gpu: str
    n_gpus: int
    params: float
    distance: float
    error: float


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """Median and 90th percentile of the error of the `n` nearest runs, nearest first."""

    median: float
    p90: float
    n: int
    family: str
    sources: tuple[str, ...]
    nearest: tuple[Near, ...]


def error_band(scenario: Scenario) -> ErrorBand | None:
    """The band of a scenario's step; None if no measured runs are near to it."""
    mine = _setting(scenario)
    return None if mine is None else band_of(mine, rows())


def band_of(mine: Setting, every: Sequence[tuple[Setting, Near]]) -> ErrorBand | None:
    """The band from measured runs; None with fewer than LEAST of them within REACH.

    Runs that nothing was fitted on go first: with five of them near, no others are asked.
    """
    near = _nearest(mine, every)
    if len(near) < LEAST:
        return None
    errors = np.asarray([one.error for one in near])
    return ErrorBand(
        median=float(np.quantile(errors, 0.5)),
        p90=float(np.quantile(errors, 0.9, method="inverted_cdf")),
        n=len(near),
        family=mine.family,
        sources=tuple(dict.fromkeys(one.source_id for one in near)),
        nearest=near,
    )


def says(band: ErrorBand | None) -> str:
    """The band as people read it, after the step that it belongs to."""
    if band is None:
        return "unknown: no measured runs are near to this scenario"
    counts = sorted({one.n_gpus for one in band.nearest})
    gpus = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    devices = ", ".join(dict.fromkeys(one.gpu.split()[0] for one in band.nearest))
    fitted = sum(one.split != "test" for one in band.nearest)
    also = f"; constants were fitted on {fitted} of them" if fitted else ""
    return (
        f"±{band.median:.0%} (median of the {band.n} measured {band.family} runs nearest to it: "
        f"{devices}, {gpus} GPUs, {', '.join(band.sources)}; 90 % within {band.p90:.0%}{also})"
    )


def _nearest(mine: Setting, every: Sequence[tuple[Setting, Near]]) -> tuple[Near, ...]:
    found = [
        replace(row, distance=far)
        for setting, row in every
        if (far := _distance(mine, setting)) <= REACH
    ]
    found.sort(key=lambda one: (one.distance, one.row_id))
    unseen = [one for one in found if one.split == "test"]
    return tuple((unseen if len(unseen) >= _ENOUGH else found)[:MOST])


def _distance(a: Setting, b: Setting) -> float:
    """In doublings; another device of the same architecture, or other checkpointing, is one more."""
    if a.family != b.family or a.architecture != b.architecture:
        return math.inf
    doublings = (
        abs(math.log2(x / y))
        for x, y in ((a.devices, b.devices), (a.params, b.params), (a.seq, b.seq))
    )
    gpus, params, seq = doublings
    others = (a.device != b.device) + (a.checkpointing != b.checkpointing)
    return gpus + params + seq / 2 + others


@cache
def rows() -> tuple[tuple[Setting, Near], ...]:
    """The scored runs that zerosim comes with, those alone that are complete."""
    path = files("zerosim.validation").joinpath("facts", "scoreboard.json")
    return tuple(_rows(orjson.loads(path.read_bytes())["steps"]["rows"]))


def _rows(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Setting, Near]]:
    for record in records:
        if record["simulatable"] != "yes":
            continue
        scenario = record["scenario"]
        setting = _described(
            scenario["schedule"],
            MACHINES[scenario["cluster"]["name"]].device,
            record["n_gpus"],
            record["params"],
            scenario["workload"],
        )
        if setting is not None:
            yield setting, _near(record)


def _near(record: Mapping[str, Any]) -> Near:
    return Near(
        row_id=record["row_id"],
        source_id=record["source_id"],
        source=record["source"],
        split=record["split"],
        gpu=record["facts"]["gpu"],
        n_gpus=record["n_gpus"],
        params=record["params"],
        distance=0.0,
        error=abs(math.log(record["predicted_s"] / record["measured_s"])),
    )


_CONSTANTS: Final = ("calibration", "peak_flops", "efficiency", "memory_bandwidth", "launch_s")
"""Fields of a cluster that make it another device than the measured one."""


def _setting(scenario: Scenario) -> Setting | None:
    cluster = scenario.cluster
    if any(getattr(cluster, name) is not None for name in _CONSTANTS):
        return None
    told = scenario.told()
    return _described(
        told["schedule"],
        machine_of(scenario).device,
        cluster.world_size,
        workload_of(scenario).n_params,
        told.get("workload", {}),
    )


def _described(
    schedule: Mapping[str, Any],
    device: Datasheet,
    n_gpus: int,
    params: float,
    workload: Mapping[str, Any],
) -> Setting | None:
    if device.architecture in ("cpu", "classroom"):
        return None
    return Setting(
        family=_family(schedule),
        architecture=device.architecture,
        device=device.name,
        devices=n_gpus,
        params=params,
        seq=workload.get("seq", 1),
        checkpointing=workload.get("checkpointing", "none"),
    )


def _family(schedule: Mapping[str, Any]) -> str:
    kept = schedule.get("reshard_after_forward") is False
    strategy = str(schedule.get("sharding_strategy", ""))
    if strategy == "NO_SHARD":
        return "DDP"
    if kept or "SHARD_GRAD_OP" in strategy or "ZERO2" in strategy:
        return "ZeRO-1/2"
    return _FAMILIES[str(schedule["name"])]
