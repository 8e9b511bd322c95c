"""Gradients that are moved into a buffer or a chunk as they come: what a backward holds of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zerosim.plan import Allocation

PASSING: Final = "gradient"
"""The key of the gradient that is on its way: one at a time, so the largest stands for all."""


def waiting(parameter: int) -> str:
    """The key of a gradient that other layers will add to, until its last part has come."""
    return f"gradient.{parameter}"


def passing(
    made: Sequence[int], done: Sequence[int], numel: Sequence[int], width: int
) -> tuple[Allocation, ...]:
    """What a backward allocates that begins the gradients `made` and completes `done`.

    `numel`: elements of each parameter; `width`: bytes of one element.
    """
    at_once = [numel[i] for i in made if i in done]
    found = [Allocation(PASSING, "gradients", max(at_once) * width)] if at_once else []
    found += [Allocation(waiting(i), "gradients", numel[i] * width) for i in made if i not in done]
    return tuple(found)
