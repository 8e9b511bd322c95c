"""What a ZeRO stage is to its trainer: who reduces gradients, and how new parameters come back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Share:
    """What one rank owns of a parameter: elements `start` to `end` of the flat tensor.

    With the padding behind them they are a row of `row` elements.
    """

    start: int
    end: int
    row: int


class Stage(ABC):
    """The sharding of one module on one rank. Parameters are named as in `module.named_parameters()`.

    A tied parameter has one name, its first; a frozen one (`requires_grad` is False) has no row here.
    """

    @abstractmethod
    def shares(self) -> Mapping[str, Share]:
        """What this rank owns, by parameter, in the same order on every rank."""

    @abstractmethod
    def backward(self, loss: torch.Tensor, *, last: bool) -> None:
        """Run autograd from a (scaled) loss; `last` of the step's micro-batches: reduce gradients."""

    @abstractmethod
    def gradients(self) -> Mapping[str, torch.Tensor | None]:
        """This rank's row `[row]` of each mean gradient, the padding zero.

        None: no rank used that parameter in this step, so that it must not be stepped (layer drop).
        Waits for reductions under way. All ranks must ask together; the rows may be written to.
        """

    @abstractmethod
    def weights(self) -> Mapping[str, torch.Tensor]:
        """This rank's row of each parameter as it computes; the optimizer writes here.

        `[row]`, or `[end - start]` without the padding where the parameter itself is kept whole.
        """

    @abstractmethod
    def refresh(self) -> None:
        """After the update: bring new values to every rank that computes with them; drop gradients."""

    @abstractmethod
    def whole(self, name: str) -> torch.Tensor:
        """A parameter in its shape, gathered if need be (for checkpoints); all ranks must ask together."""

    @abstractmethod
    def close(self) -> None:
        """Take the hooks off. The trainer ends threads and process groups."""
