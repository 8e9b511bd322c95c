"""Before training: is the module one we can train? Everyone gets rank 0's module, and it computes in the wanted format."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map
from torch.utils.hooks import RemovableHandle

from zerosim.errors import InputError
from zerosim_runtime.zero.channels import Channels


def check(module: nn.Module) -> torch.device:
    """The one device that its parameters lie on. Raises InputError for a module we cannot train."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not trained:
        raise InputError("no parameter of the module requires a gradient: unfreeze one")
    for name, parameter in trained.items():
        if not parameter.is_floating_point():
            raise InputError(f"'{name}' is {parameter.dtype}: give real parameters")
    devices = {p.device for p in module.parameters()}
    if len(devices) != 1:
        found = ", ".join(sorted(map(str, devices)))
        raise InputError(f"the parameters lie on {found}: put the module on one device first")
    return devices.pop()


@torch.no_grad()
def send_from_first(module: nn.Module, channels: Channels) -> None:
    """Bring rank 0's parameters and buffers to all ranks, as torch's DDP does."""
    for name, tensor in chain(module.named_parameters(), module.named_buffers()):
        flat = tensor.detach().contiguous().view(-1)
        channels.broadcast(name, flat).wait()
        tensor.copy_(flat.view(tensor.shape))


def compute_in(module: nn.Module, dtype: torch.dtype | None) -> tuple[RemovableHandle, ...]:
    """Convert parameters, buffers and (by a hook) the inputs; None: nothing. Returns the hooks."""
    if dtype is None:
        return ()
    module.to(dtype)

    def cast(value: Any) -> Any:  # noqa: ANN401 - any input of any module
        is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if is_number else value

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return tree_map(cast, args), tree_map(cast, kwargs)

    return (module.register_forward_pre_hook(hook, with_kwargs=True),)
