"""The schedules there are, by name: each turns a workload into the plan of one rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from zerosim.numerics import Numerics
from zerosim.partition import padded_unit
from zerosim.plan import Plan
from zerosim.registry import Registry
from zerosim.schedules.colossalai import colossalai1, colossalai2
from zerosim.schedules.colossalai.old import colossalai1_old, colossalai2_old
from zerosim.schedules.colossalai.options import OldOptions, Stage1Options, Stage2Options
from zerosim.schedules.ddp import DdpOptions, ddp
from zerosim.schedules.deepspeed3 import DeepSpeed3Options, deepspeed_3
from zerosim.schedules.deepspeed12 import deepspeed1, deepspeed2
from zerosim.schedules.deepspeed12.layout import flat_padded
from zerosim.schedules.deepspeed12.options import DeepSpeedOptions
from zerosim.schedules.fsdp1 import Fsdp1Options, fsdp1, fsdp1_padded
from zerosim.schedules.fsdp2 import Fsdp2Options, fsdp2, fsdp2_padded
from zerosim.schedules.gemini import gemini, gemini_padded
from zerosim.schedules.gemini.options import GeminiOptions
from zerosim.schedules.megatron import megatron, megatron_padded
from zerosim.schedules.megatron.options import MegatronOptions
from zerosim.schedules.zero1 import Zero1Options, zero1
from zerosim.schedules.zero2 import Zero2Options, zero2
from zerosim.schedules.zero3 import Zero3Options, zero3
from zerosim.schedules.zero_redundancy import OwnerOptions, zero_redundancy
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule family: its option record, and the function that writes its plan.

    `padded`: elements of one copy of all parameters as they are split over ranks, padding included,
    from workload, ranks, numerics and options (None: every rank has all of them).
    """

    options: type[Any]
    write: Callable[..., Plan]
    summary: str
    padded: Callable[[Workload, int, Numerics, Any], int] | None = None


def _evenly(workload: Workload, n_ranks: int, _: Numerics, __: object) -> int:
    return sum(padded_unit(unit, n_ranks) for unit in workload.units)


def _whole(workload: Workload, _: int, __: Numerics, ___: object) -> int:
    return workload.n_params


SCHEDULES: Final = Registry(
    "schedule",
    {
        "colossalai-1": Schedule(
            Stage1Options,
            colossalai1,
            "ColossalAI: parameters split evenly, all-reduced buckets",
            _evenly,
        ),
        "colossalai-2": Schedule(
            Stage2Options, colossalai2, "ColossalAI: as stage 1, buckets reduce-scattered", _evenly
        ),
        "colossalai-1-old": Schedule(
            OldOptions,
            colossalai1_old,
            "ColossalAI: whole parameters, all-reduced, broadcast",
            _whole,
        ),
        "colossalai-2-old": Schedule(
            OldOptions,
            colossalai2_old,
            "ColossalAI: whole parameters, reduced to their owners",
            _whole,
        ),
        "ddp": Schedule(DdpOptions, ddp, "replicas; bucketed all-reduce"),
        "deepspeed-1": Schedule(
            DeepSpeedOptions, deepspeed1, "DeepSpeed: flat optimizer slices", flat_padded
        ),
        "deepspeed-2": Schedule(
            DeepSpeedOptions, deepspeed2, "DeepSpeed: flat gradient slices too", flat_padded
        ),
        "deepspeed-3": Schedule(
            DeepSpeed3Options,
            deepspeed_3,
            "DeepSpeed ZeRO-3: gathered by module, as recorded",
            _evenly,
        ),
        "fsdp1": Schedule(
            Fsdp1Options, fsdp1, "torch FSDP1: a flat parameter a unit", fsdp1_padded
        ),
        "fsdp2": Schedule(
            Fsdp2Options, fsdp2, "torch's fully_shard: each module by its rows", fsdp2_padded
        ),
        "gemini": Schedule(
            GeminiOptions,
            gemini,
            "ColossalAI's Gemini: parameters in chunks, given up lazily",
            gemini_padded,
        ),
        "megatron": Schedule(
            MegatronOptions,
            megatron,
            "Megatron-LM's distributed optimizer: whole float32 gradients",
            megatron_padded,
        ),
        "zero-redundancy": Schedule(
            OwnerOptions, zero_redundancy, "torch's ZeroRedundancyOptimizer over DDP", _whole
        ),
        "zero1": Schedule(Zero1Options, zero1, "optimizer states sharded", _evenly),
        "zero2": Schedule(Zero2Options, zero2, "optimizer states and gradients sharded", _evenly),
        "zero3": Schedule(
            Zero3Options, zero3, "parameters sharded too, gathered layer by layer", _evenly
        ),
    },
)

__all__ = ["SCHEDULES", "Schedule"]
