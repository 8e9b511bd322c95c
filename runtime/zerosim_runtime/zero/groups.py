"""Which parameters a unit gathers, and which are left to the root: those outside units or shared by several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from zerosim.errors import InputError
from zerosim_runtime.zero.units import ROOT


@dataclass(frozen=True, slots=True)
class Group:
    """A unit: its module, and the parameters that are gathered before its forward, by their names."""

    name: str
    module: nn.Module
    parameters: dict[str, nn.Parameter]


def groups_of(module: nn.Module, units: Sequence[str]) -> tuple[Group, ...]:
    """The root, then the units that have parameters of their own; a module is one unit only.

    A parameter belongs to the innermost unit around it. What is never called (a ModuleList, a
    ModuleDict) cannot be gathered before its call, so that its parameters are the root's.
    """
    inside = {name: module.get_submodule(name) for name in units if name != ROOT}
    called = {
        name: unit
        for name, unit in inside.items()
        if type(unit).forward is not nn.Module.forward
        and name == next(n for n, other in inside.items() if other is unit)
    }
    owners = _owners(module, called)
    groups = {name: Group(name, unit, {}) for name, unit in {ROOT: module, **called}.items()}
    for name, parameter in module.named_parameters():
        several = owners[parameter]
        owner = next(iter(several)) if len(several) == 1 else ROOT
        groups[owner].parameters[name] = parameter
    for group in groups.values():
        _check(group)
    return tuple(g for g in groups.values() if g.parameters or g.name == ROOT)


def _owners(module: nn.Module, units: dict[str, nn.Module]) -> dict[nn.Parameter, set[str]]:
    """The units in which each parameter lies, the innermost at each place."""
    found: dict[nn.Parameter, set[str]] = {}

    def visit(part: nn.Module, unit: str) -> None:
        unit = next((name for name, other in units.items() if other is part), unit)
        for parameter in part.parameters(recurse=False):
            found.setdefault(parameter, set()).add(unit)
        for child in part.children():
            visit(child, unit)

    visit(module, ROOT)
    return found


def _check(group: Group) -> None:
    for name, parameter in group.parameters.items():
        if type(parameter) is not nn.Parameter:
            raise InputError(
                f"parameter '{name}' is a {type(parameter).__name__}: give plain nn.Parameters"
            )
    dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in group.parameters.values()})
    if len(dtypes) > 1:
        raise InputError(
            f"unit '{group.name}' has parameters in {' and '.join(dtypes)}: "
            "give a dtype, or units of one dtype"
        )
