"""The units of a model: the parts of it by which people read a step, named by module path.

# Note [Units of a model]
The entries of a ModuleList (ModuleDict, Sequential of modules that have parts) are units; so are the
other children of whatever holds such a list, and what FSDP wraps. Everything else is the root's own
unit, called "". Wrappers (DDP, FSDP1, compile, checkpoint) leave no trace in a path.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from torch import nn
from torch.nn.parallel import DistributedDataParallel

_WRAPPED: Final = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")
_WRAPPER_WORD: Final = re.compile(rf"(?:^|(?<=\.))(?:{'|'.join(_WRAPPED)})(?:\.|$)")
_SHOWN: Final = 3


def inner(module: nn.Module) -> nn.Module:
    """The user's own module inside wrappers."""
    while True:
        wrapped: Any = next(
            (module._modules[name] for name in _WRAPPED if name in module._modules),  # noqa: SLF001 - names of torch's wrappers
            module._modules.get("module") if _wraps(module) else None,  # noqa: SLF001 - as above
        )
        if wrapped is None:
            return module
        module = wrapped


@functools.cache
def clean(path: str) -> str:
    """A module's path without the names of wrappers."""
    return _WRAPPER_WORD.sub("", path).rstrip(".")


def units_of(root: nn.Module) -> dict[str, nn.Module]:
    """The units of a model by path; see Note [Units of a model]."""
    found = dict(_units(root, ""))
    return found or {"": root}


def unit_of(path: str, units: Iterable[str]) -> str:
    """The unit that a module or parameter of that path belongs to."""
    inside = [unit for unit in units if path == unit or path.startswith(f"{unit}.")]
    return max(inside, key=len, default="")


def joined(units: Iterable[str]) -> str:
    """Several units as one name, in their order: `blocks.1+blocks.0`, `blocks.7…blocks.0`.

    The root's own is only named if it is alone.
    """
    distinct = list(dict.fromkeys(units))
    distinct = [unit for unit in distinct if unit] or distinct
    if len(distinct) > _SHOWN:
        return f"{distinct[0]}…{distinct[-1]}"
    return "+".join(distinct)


def _units(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    held = inner(module)
    entries = _is_list(held)
    for name, child in held.named_children():
        below = f"{path}.{name}" if path else name
        if _opens(child, entry=entries):
            yield from _units(child, below)
        else:
            yield below, child


def _opens(module: nn.Module, *, entry: bool) -> bool:
    """Whether a module is looked into, and not a unit itself."""
    held = inner(module)
    if any(_is_sharded(m) for m in held.modules() if m is not held and m is not module):
        return True
    return not entry and any(_is_list(m) for m in held.modules())


def _is_list(module: nn.Module) -> bool:
    if isinstance(module, nn.Sequential):
        return len(module) > 1 and all(_has_parts(m) for m in module)
    return isinstance(module, nn.ModuleList | nn.ModuleDict) and len(module) > 0


def _has_parts(module: nn.Module) -> bool:
    return next(inner(module).children(), None) is not None


def _is_sharded(module: nn.Module) -> bool:
    return any(
        kind.__name__ in ("FSDPModule", "FullyShardedDataParallel") for kind in type(module).__mro__
    )


def _wraps(module: nn.Module) -> bool:
    return isinstance(module, DistributedDataParallel) or type(module).__name__ == "DeepSpeedEngine"
