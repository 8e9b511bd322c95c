"""Tensors inside what modules take and return: tuples, lists, dicts and dataclasses of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch
from torch import nn

_OWN: Final = frozenset(vars(nn.Module()))
"""The attributes that torch itself gives to a module."""


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """All tensors, in order; objects of other kinds are not looked into."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from tensors_in(getattr(value, each.name, None))


def replaced(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:  # noqa: ANN401 - as it came
    """The same value with each tensor changed; only plain containers (and named tuples) are entered."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) is dict:
        return {key: replaced(each, change) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(replaced(each, change) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(each, change) for each in value))
    return value


def tensors_left(module: nn.Module) -> Iterator[torch.Tensor]:
    """Tensors that a forward has left in attributes (an auxiliary loss), not parameters or buffers."""
    for part in module.modules():
        for name, value in vars(part).items():
            if name not in _OWN:
                yield from tensors_in(value)
