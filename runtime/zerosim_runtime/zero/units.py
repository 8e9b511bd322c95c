"""Units: the parts of a module whose parameters travel together, named by module path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import nn

from zerosim.errors import UnknownNameError

ROOT = ""
"""The unit of parameters that lie in no other unit, or in several."""


def units_of(module: nn.Module, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The units' module paths: those `wanted`, else entries of module lists, else children.

    Raises UnknownNameError.
    """
    modules = dict(module.named_modules())
    for name in wanted or ():
        if name not in modules:
            raise UnknownNameError("module", name, modules)
    if wanted is not None:
        return tuple(wanted)
    lists = [name for name, found in modules.items() if isinstance(found, nn.ModuleList)]
    outer = [name for name in lists if not any(_inside(name, other) for other in lists)]
    return tuple(
        f"{name}.{i}" if name else str(i) for name in outer for i in _entries(modules, name)
    ) or tuple(name for name, _ in module.named_children())


def unit_of(parameter: str, units: Iterable[str]) -> str:
    """The innermost unit that a parameter lies in, by its name."""
    return max((unit for unit in units if _inside(parameter, unit)), key=len, default=ROOT)


def _entries(modules: dict[str, nn.Module], name: str) -> range:
    entries = modules[name]
    return range(len(entries)) if isinstance(entries, nn.ModuleList) else range(0)


def _inside(name: str, outer: str) -> bool:
    return name != outer and (not outer or name.startswith(f"{outer}."))


def label_of(names: Sequence[str], units: Mapping[str, str]) -> str:
    """What a bucket is called in a trace: the unit of its first parameter, and of its last if another."""
    first, last = units[names[0]], units[names[-1]]
    return first if first == last else f"{first}-{last}"
