"""Wrapping units: which submodules are gathered and freed as one, and which parameters are theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from torch import nn

from zerosim.errors import UnknownNameError

_LISTS: Final = (nn.ModuleList, nn.Sequential)


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A unit: its module's path ('' for the root), and its parameters by name, each tied one once."""

    path: str
    module: nn.Module
    parameters: dict[str, nn.Parameter]


def wrapped_modules(root: nn.Module, classes: Sequence[str] = ()) -> dict[str, nn.Module]:
    """The modules to wrap, by path: those of `classes`, or the repeated blocks that are found.

    A block has children of its own, and its class occurs more than once in its list, or else
    anywhere; where there is none, it is a plain layer of a list. Raises UnknownNameError for a class
    that does not occur.
    """
    if classes:
        known = {type(module).__name__ for module in root.modules()}
        for name in classes:
            if name not in known:
                raise UnknownNameError("module class", name, known)
        return {path: m for path, m in root.named_modules() if path and _is_one(m, classes)}
    return (
        dict(_in_lists(root, "", plain=False))
        or dict(_repeated(root))
        or dict(_in_lists(root, "", plain=True))
    )


def units_of(root: nn.Module, wrapped: dict[str, nn.Module]) -> tuple[Wrapped, ...]:
    """The root's unit and one a wrapped module, in definition order; each has its own parameters.

    A parameter that several units use belongs to the root, as FSDP asks; so nothing is counted twice.
    """
    owners = {"": root} | wrapped
    every = dict(root.named_modules(remove_duplicate=False))
    places_of = {id(module): path for path, module in owners.items()}
    users: dict[int, set[str]] = {}
    for path, module in every.items():
        for parameter in module.parameters(recurse=False):
            users.setdefault(id(parameter), set()).add(_owner(path, every, places_of))
    places: dict[str, dict[str, nn.Parameter]] = {path: {} for path in owners}
    for name, parameter in root.named_parameters():
        using = users[id(parameter)]
        owner = next(iter(using)) if len(using) == 1 else ""
        places[owner][name.removeprefix(f"{owner}.") if owner else name] = parameter
    return tuple(Wrapped(path, owners[path], held) for path, held in places.items())


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Paths without what all of them have in common before their last part: `h.0`, `h.1` → `0`, `1`."""
    parts = {path: path.split(".") for path in paths}
    shared = 0
    while parts and all(len(p) > shared + 1 for p in parts.values()):
        if len({p[shared] for p in parts.values()}) > 1:
            break
        shared += 1
    return {path: ".".join(p[shared:]) for path, p in parts.items()}


def _owner(path: str, every: dict[str, nn.Module], places: dict[int, str]) -> str:
    # By the module, not by its path: a block that is called twice may have two.
    while id(every[path]) not in places:
        path = path.rpartition(".")[0]
    return places[id(every[path])]


def _is_one(module: nn.Module, classes: Sequence[str]) -> bool:
    return type(module).__name__ in classes


def _in_lists(module: nn.Module, path: str, *, plain: bool) -> Iterable[tuple[str, nn.Module]]:
    repeated = _repeated_classes(module.children()) if isinstance(module, _LISTS) else set()
    for name, child in module.named_children():
        place = f"{path}.{name}" if path else name
        fits = plain or _has_children(child)
        if type(child) in repeated and fits and _has_parameters(child):
            yield place, child
        else:
            yield from _in_lists(child, place, plain=plain)


def _repeated(root: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """Outermost modules of a class that has children and occurs more than once."""
    blocks = (m for m in root.modules() if m is not root and _has_children(m))
    repeated = _repeated_classes(blocks)
    taken: list[str] = []
    for path, module in root.named_modules():
        inside = any(path.startswith(f"{outer}.") for outer in taken)
        if type(module) in repeated and _has_parameters(module) and not inside:
            taken.append(path)
            yield path, module


def _repeated_classes(modules: Iterable[nn.Module]) -> set[type[nn.Module]]:
    return {kind for kind, n in Counter(map(type, modules)).items() if n > 1}


def _has_children(module: nn.Module) -> bool:
    return any(True for _ in module.children())


def _has_parameters(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())
