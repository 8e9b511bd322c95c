"""Fake CPU tensors: shapes and dtypes that compute like real ones, without memory or values.

# Note [Why fake CPU tensors]
On the meta device attention takes torch's math path, which keeps its scores for the backward; fake
CPU tensors take the fused one, as a GPU does. So what is kept is read off fake CPU tensors, and the
FLOPs of attention are counted by its shapes, whichever path it takes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only


def make_fake(module: nn.Module) -> None:
    """Replace the tensors of `module`, in place, by fake ones on the CPU; call in a FakeTensorMode.

    A tensor that stands in several places (tied parameters) stays one. Plain attributes count, too.
    """
    made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for part in module.modules():
        owners: tuple[dict[str, Any], ...] = (part._parameters, part._buffers, part.__dict__)  # noqa: SLF001 - no public way
        for owner in owners:
            for name, value in list(owner.items()):
                if isinstance(value, torch.Tensor):
                    made.setdefault(id(value), (_fake(value), value))
                    owner[name] = made[id(value)][0]


def fake_inputs(inputs: Any, repeats: int) -> Any:  # noqa: ANN401 - the user's own structure
    """The same structure with fake tensors, their first dimension `repeats` times as long."""

    def repeated(tensor: torch.Tensor) -> torch.Tensor:
        shape = list(tensor.shape)
        if shape:
            shape[0] *= repeats
        return torch.empty(shape, dtype=tensor.dtype, requires_grad=tensor.requires_grad)

    return tree_map_only(torch.Tensor, repeated, inputs)


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    new = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(new, requires_grad=tensor.requires_grad)
    return new
