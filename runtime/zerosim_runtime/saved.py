"""What autograd keeps for the backward, measured: bytes of every layer's saved tensors, each once."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass(slots=True)
class Saved:
    """The storages saved since `reset`, attributed to the layer that saved them first.

    What somebody else holds (`given`: the batch; `weights`: the layer's parameters) does not count.
    Tensors of as many elements as `scores` are the output scores.
    """

    layer: str = ""
    scores: int = 0
    given: tuple[torch.Tensor, ...] = ()
    weights: torch.Tensor | None = None
    seen: set[int] = field(default_factory=set)
    kept: dict[str, int] = field(default_factory=dict)
    logits: dict[str, int] = field(default_factory=dict)

    def reset(self, given: tuple[torch.Tensor, ...]) -> None:
        """A new micro-batch: nothing is saved."""
        self.given = given
        for found in (self.seen, self.kept, self.logits):
            found.clear()

    def enter(self, layer: str, scores: int, weights: torch.Tensor) -> None:
        """From here on, what is saved belongs to `layer`, whose parameters lie in `weights`."""
        self.layer, self.scores, self.weights = layer, scores, weights

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor that autograd saves; it is kept as it is."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.seen | self._held():
            self.seen.add(storage.data_ptr())
            place = self.logits if self.scores and tensor.numel() == self.scores else self.kept
            place[self.layer] = place.get(self.layer, 0) + storage.nbytes()
        return tensor.detach()

    def _held(self) -> set[int]:
        held = self.given if self.weights is None else (*self.given, self.weights)
        return {tensor.untyped_storage().data_ptr() for tensor in held}


def watching(saved: Saved) -> torch.autograd.graph.saved_tensors_hooks:
    """A context in which every tensor that autograd saves is counted."""
    return torch.autograd.graph.saved_tensors_hooks(saved.pack, _unpack)


def _unpack(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
