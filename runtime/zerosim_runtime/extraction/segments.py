"""Stretches of a forward: what one unit does in one call, and the modules that do it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass(slots=True)
class Call:
    """A module with direct parameters, as it is called in a segment (None: what no module does).

    `masked_flops`: FLOPs of the forward that a causal mask makes needless.
    """

    path: str
    module: nn.Module | None
    forward_flops: int = 0
    backward_flops: int = 0
    masked_flops: int = 0


@dataclass(slots=True)
class Segment:
    """A stretch of the forward inside one unit; `call` tells two calls of one unit apart.

    `kept`: elements saved for the backward, by dtype. `traffic_bytes`: read and written beside the
    matrix products (forward, backward), by so many `kernels`, matrix products included, in which
    attention is one and its FLOPs are `attention_flops`. `inputs`: elements that come into the unit.
    `peak_bytes`: the most that is alive while it runs (forward, backward), parameters, inputs and what
    the backward of others has made of gradients apart; `gradient_bytes`: what its own makes.
    """

    unit: int
    call: int
    calls: list[Call] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    kept: dict[torch.dtype, int] = field(default_factory=dict)
    traffic_bytes: list[int] = field(default_factory=lambda: [0, 0])
    kernels: list[int] = field(default_factory=lambda: [0, 0])
    attention_flops: int = 0
    inputs: int = 0
    peak_bytes: list[int] = field(default_factory=lambda: [0, 0])
    gradient_bytes: int = 0
