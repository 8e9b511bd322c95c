"""How stages 1 and 2 deal a parameter out to the ranks: what the even and the whole split have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch

from zerosim_runtime.collectives import Handle
from zerosim_runtime.zero.buckets import Names
from zerosim_runtime.zero.stage import Share


@dataclass(frozen=True, slots=True)
class Reduction:
    """A bucket under way: the memory it is in, and this rank's part of it if that lies elsewhere."""

    number: int
    names: Names
    buffer: torch.Tensor
    own: torch.Tensor | None
    handle: Handle


class Split(ABC):
    """Which elements a rank owns, and how gradients and new parameters travel between the ranks."""

    @abstractmethod
    def share(self, name: str) -> Share | None:
        """What this rank owns of a parameter; None: nothing."""

    @abstractmethod
    def lane(self, name: str) -> Hashable:
        """Gradients of one lane may share a bucket."""

    @abstractmethod
    def begin(self, number: int, names: Names, gradients: Mapping[str, torch.Tensor]) -> Reduction:
        """Lay gradients, divided by the ranks, into a new bucket (zeros for those missing); start it."""

    @abstractmethod
    def finish(self, reduction: Reduction) -> Mapping[str, torch.Tensor]:
        """Wait for a bucket and let it go; returns this rank's rows of the mean gradients."""

    @abstractmethod
    def gather(self, parameters: Mapping[str, torch.Tensor], buckets: Sequence[Names]) -> None:
        """Bring everyone's part of the (flat) parameters to everyone."""
