"""An identity on a unit's inputs, whose backward says that the unit's own backward is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from zerosim_runtime.zero.nested import replaced


class _Identity(torch.autograd.Function):
    """Its backward runs when the gradients of all inputs are complete; unused ones stay None."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        done: Callable[[], None],
        *inputs: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        ctx.done = done
        ctx.set_materialize_grads(False)
        return inputs

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401 - torch's context
        *gradients: torch.Tensor,
    ) -> tuple[torch.Tensor | None, ...]:
        ctx.done()
        return None, *gradients


def behind_identity(
    done: Callable[[], None], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any] | None:
    """A call's inputs behind one identity that tells `done`; None if no input needs a gradient."""
    found: dict[int, torch.Tensor] = {}
    replaced((args, kwargs), lambda tensor: found.setdefault(id(tensor), tensor))
    inputs = [tensor for tensor in found.values() if tensor.requires_grad]
    if not inputs:
        return None
    apply: Callable[..., tuple[torch.Tensor, ...]] = _Identity.apply
    behind = dict(zip(map(id, inputs), apply(done, *inputs), strict=True))
    new_args, new_kwargs = replaced((args, kwargs), lambda t: behind.get(id(t), t))
    return new_args, new_kwargs
