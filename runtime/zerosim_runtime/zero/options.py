"""What one may choose: the ZeRO stage, the numbers' format, buckets, prefetch, the optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import torch

from zerosim.collectives import SCATTERS
from zerosim.errors import InputError, UnknownNameError
from zerosim_runtime.optimizer import RULES, Settings

STAGES: Final = (1, 2, 3)
PARTITIONS: Final = ("even", "whole")
BUCKET_ORDERS: Final = ("static", "dynamic")
DTYPES: Final = (None, torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Options:
    """How a module is trained.

    `dtype`: what it computes in, None: as its parameters are; bfloat16 and float16 have float32
    masters. `loss_scale`: a fixed factor, 0 for a dynamic one, None for none. `clip_norm`: the largest
    global gradient norm, None: any. `bucket_bytes`: of gradients in stages 1 and 2, and of gathers
    after the update. `bucket_order`: static (the same every step, zeros for parameters without a
    gradient) or dynamic (as gradients arrive). `partition`: even rows, or whole parameters to the
    least loaded rank (stages 1 and 2). Stage 3: `prefetch` units ahead, `keep_last` forward unit.
    At most `in_flight` reductions travel at once. `guard`: ranks compare what they issue. `poison`:
    new memory is NaN until it is filled, so that what is used too early shows. `scatter`: how Gloo
    reduces and scatters, native (which is an all-reduce) or all-to-all.
    """

    stage: int = 3
    dtype: torch.dtype | None = None
    optimizer: str = "adamw"
    settings: Settings = field(default_factory=Settings)
    clip_norm: float | None = None
    loss_scale: float | None = None
    bucket_bytes: int = 25 * 2**20
    bucket_order: str = "static"
    partition: str = "even"
    prefetch: int = 1
    keep_last: bool = True
    in_flight: int = 1
    guard: bool = True
    poison: bool = False
    scatter: str = "native"

    def __post_init__(self) -> None:
        """Refuse what cannot be. Raises UnknownNameError, InputError."""
        for word, value, known in (
            ("partition", self.partition, PARTITIONS),
            ("bucket order", self.bucket_order, BUCKET_ORDERS),
            ("optimizer", self.optimizer, RULES),
            ("scatter", self.scatter, SCATTERS),
        ):
            if value not in known:
                raise UnknownNameError(word, value, known)
        if self.stage not in STAGES:
            raise InputError(f"stage is {self.stage}: give 1, 2 or 3")
        if self.partition == "whole" and self.stage == STAGES[-1]:
            raise InputError("partition is 'whole' at stage 3: give stage 1 or 2, or 'even'")
        if self.dtype not in DTYPES:
            raise InputError(f"dtype is {self.dtype}: give None or a float of 16, 32 or 64 bits")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise InputError(f"clip_norm is {self.clip_norm}: give None or a positive number")
        if self.loss_scale is not None and not 0 <= self.loss_scale < math.inf:
            raise InputError(f"loss_scale is {self.loss_scale}: give None, 0 or a positive number")
        for name, number, least in (
            ("bucket_bytes", self.bucket_bytes, 1),
            ("prefetch", self.prefetch, 0),
            ("in_flight", self.in_flight, 1),
        ):
            if number < least:
                raise InputError(f"{name} is {number}: give at least {least}")
