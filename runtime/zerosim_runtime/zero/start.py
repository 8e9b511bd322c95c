"""Before training: whether a module can be trained, and is everyone's; rank 0's goes to all, in a format."""

from __future__ import annotations

from hashlib import sha256
from itertools import chain
from typing import Any, Final

import torch
from torch import nn
from torch.utils._pytree import tree_map
from torch.utils.hooks import RemovableHandle

from zerosim.errors import InputError
from zerosim_runtime.zero.absent import Absent
from zerosim_runtime.zero.channels import Channels
from zerosim_runtime.zero.options import Options

_MARK: Final = "sharded_by_zerosim"  # an attribute of ours on torch's module


def mark(module: nn.Module, *, sharded: bool) -> None:
    """Note whether a trainer has the module, since the hooks of two would both take its gradients."""
    setattr(module, _MARK, sharded)


def check(module: nn.Module) -> torch.device:
    """The one device that its parameters lie on. Raises InputError for a module we cannot train."""
    if getattr(module, _MARK, False):
        raise InputError("the module is sharded already: close its trainer first")
    if any(isinstance(parameter, Absent) for parameter in module.parameters()):
        raise InputError(
            "a stage 3 left the module's parameters in shards: build it anew, then load()"
        )
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


def agree(module: nn.Module, options: Options, channels: Channels) -> None:
    """Raise InputError on all ranks if any has another module, or other options, than rank 0."""
    known = [(n, p.shape, p.dtype, p.requires_grad) for n, p in module.named_parameters()]
    known += [(n, b.shape, b.dtype, False) for n, b in module.named_buffers()]
    digest = sha256(repr((known, options)).encode()).digest()
    mine = torch.frombuffer(bytearray(digest), dtype=torch.int64).to(channels.device)
    first = mine.clone()
    channels.broadcast("agreement", first).wait()
    differ = torch.tensor([not torch.equal(mine, first)], dtype=torch.int32).to(channels.device)
    channels.all_reduce("agreement", differ).wait()
    if n_ranks := int(differ.item()):
        raise InputError(
            f"{n_ranks} of {channels.n_ranks} ranks have another module, or other options, than "
            "rank 0: build the same on all"
        )


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
