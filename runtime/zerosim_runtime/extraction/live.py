"""Which memory is alive while a module runs: bytes of storages that are neither given nor parameters.

# Note [Gradients that wait for another layer]
Autograd adds up what several layers make of a shared parameter's gradient before the parameter gets
it. The sum is there from the first of these layers' backwards on, so it counts as a gradient then.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from zerosim_runtime.extraction.segments import Segment


@dataclass(slots=True)
class Live:
    """`nbytes` alive now; storages of `held` (parameters, buffers, inputs) do not count.

    `awaited`: bytes of the gradients that nobody has made yet, by parameter; `gradients`: bytes of
    those that are there; `outputs`: of the answer and its gradient, which the loss drops.
    """

    held: set[int]
    awaited: dict[int, int]
    nbytes: int = 0
    gradients: int = 0
    outputs: int = 0
    _known: set[int] = field(default_factory=set)

    def see(self, tensors: Iterable[torch.Tensor]) -> None:
        """Count the storages of `tensors` that are new, until they are gone."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            number: int = storage._cdata  # noqa: SLF001 - fake storages have no address
            if number not in self.held and number not in self._known:
                self._known.add(number)
                self.nbytes += storage.nbytes()
                weakref.finalize(storage, self._gone, number, storage.nbytes())

    def measure_forward(self, segment: Segment) -> None:
        """Note the most that is alive in the forward of `segment`."""
        segment.peak_bytes[0] = max(segment.peak_bytes[0], self.nbytes)

    def end_forward(self, tensors: Iterable[torch.Tensor]) -> None:
        """The caller holds these through the backward, where a training loop would not."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            number: int = storage._cdata  # noqa: SLF001 - fake storages have no address
            self._gone(number, storage.nbytes())
            self.held.add(number)
            self.outputs += storage.nbytes()

    def measure_backward(self, segment: Segment, *, last: bool) -> None:
        """The same in its backward, without others' gradients; the `last` layer has the answer too."""
        now = self.nbytes - (self.gradients - segment.gradient_bytes)
        now += self.outputs if last else 0
        segment.peak_bytes[1] = max(segment.peak_bytes[1], now)

    def end_backward(self, segment: Segment) -> None:
        """See Note [Gradients that wait for another layer]."""
        for parameter in segment.used:
            self.made(parameter, segment)

    def made(self, parameter: int, segment: Segment) -> None:
        """The backward of `segment` has made a parameter's gradient, if none had before."""
        nbytes = self.awaited.pop(parameter, 0)
        self.gradients += nbytes
        segment.gradient_bytes += nbytes

    def _gone(self, number: int, nbytes: int) -> None:
        if number in self._known:
            self._known.discard(number)
            self.nbytes -= nbytes
