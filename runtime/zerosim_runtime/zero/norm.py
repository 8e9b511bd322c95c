"""The global gradient norm over everyone's rows, and the factor that clips by it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import torch

from zerosim.plan import Allocation
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.channels import Channels

_NORM: Final = "norm"
_EPS: Final = 1e-6  # torch.nn.utils.clip_grad_norm_ adds it to the norm


def global_norm(rows: Iterable[torch.Tensor], channels: Channels, memory: Memory) -> float:
    """The 2-norm of all ranks' rows together, summed in float64; not finite if any element is not.

    Each rank sums the squares of what it owns (padding is zero), one all-reduce adds them up.
    """
    total = memory.new(Allocation(_NORM, "buckets", 8), 1, torch.float64, zero=True)
    for row in rows:
        total += torch.linalg.vector_norm(row, dtype=torch.float64).square()
    channels.all_reduce(_NORM, total).wait()
    memory.drop(_NORM)
    return math.sqrt(total.item())


def clip_factor(norm: float, clip_norm: float, dtype: torch.dtype) -> float:
    """What gradients are multiplied with, rounded as `torch.nn.utils.clip_grad_norm_` does in `dtype`."""
    rounded = torch.tensor(norm, dtype=dtype)
    return (clip_norm / (rounded + _EPS)).clamp(max=1.0).item()
