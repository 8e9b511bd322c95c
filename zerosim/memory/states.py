"""Model states in closed form: what each ZeRO stage leaves on a rank, and the largest model that fits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from zerosim.errors import ScenarioError
from zerosim.memory.conventions import Convention

STAGES: Final = (0, 1, 2, 3)
"""0 keeps replicas (DDP); 1 splits optimizer states, 2 gradients too, 3 parameters too."""


@dataclass(frozen=True, slots=True)
class States:
    """What one rank holds throughout, in bytes; exact, so that nothing is lost before it is shown."""

    parameters: Fraction
    gradients: Fraction
    optimizer: Fraction

    @property
    def nbytes(self) -> int:
        """All of them, in whole bytes."""
        return math.ceil(self.parameters + self.gradients + self.optimizer)

    @property
    def by_kind(self) -> dict[str, int]:
        """Whole bytes of each."""
        kinds = ("parameters", "gradients", "optimizer")
        return {kind: math.ceil(getattr(self, kind)) for kind in kinds}


def states(n_params: int, convention: Convention, stage: int, n_ranks: int) -> States:
    """States of a rank: without padding, which depends on the shapes of the parameters.

    Stage 0 is pΨ + gΨ + KΨ; each stage divides one more of K, g, p by N (arXiv 1910.02054 §5).
    Raises ScenarioError for no ranks, or a ZeRO stage there is not.
    """
    if stage not in STAGES:
        raise ScenarioError(f"ZeRO stage {stage} does not exist: give 0, 1, 2 or 3")
    if n_ranks < 1 or n_params < 0:
        raise ScenarioError(
            f"{n_params} parameters on {n_ranks} ranks: give at least 0 and at least 1"
        )
    share, whole = Fraction(1, n_ranks), Fraction(1)
    return States(
        parameters=n_params * convention.parameters * (share if stage >= 3 else whole),  # noqa: PLR2004 - a ZeRO stage
        gradients=n_params * convention.gradients * (share if stage >= 2 else whole),  # noqa: PLR2004 - a ZeRO stage
        optimizer=n_params * convention.optimizer * (share if stage >= 1 else whole),
    )


def largest_model(
    memory_bytes: int, convention: Convention, stage: int, n_ranks: int, model_parallel: int = 1
) -> int:
    """Parameters whose states fill `memory_bytes` a device; nothing is left for anything else.

    With `model_parallel` m, each device holds a part of 1/m before ZeRO splits it further.
    """
    one = states(1, convention, stage, n_ranks)
    per_parameter = one.parameters + one.gradients + one.optimizer
    return math.floor(Fraction(memory_bytes) * model_parallel / per_parameter)
