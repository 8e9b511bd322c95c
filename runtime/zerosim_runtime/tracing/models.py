"""The models of a program, found as they run: which unit a module, a parameter, a gradient is of."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from zerosim_runtime.tracing.units import clean, inner, joined, unit_of, units_of


@dataclass(slots=True)
class Place:
    """Where a module stands: `unit` is its path if it is one, `path` its own.

    `root`: it is a model, and has parameters. `sharded`: FSDP2 gathers it once it has been called.
    """

    module: weakref.ref[nn.Module]
    path: str
    unit: str | None
    root: bool = False
    sharded: bool = False


@dataclass(slots=True)
class Models:
    """What is known of all modules that have run, by id.

    `pointers`: the units of parameters and gradients by where they lie, as of the step `scanned`;
    `held` are the parameters by unit, `known_units` and `known_names` the units of paths
    that were asked for.
    """

    places: dict[int, Place] = field(default_factory=dict)
    roots: list[weakref.ref[nn.Module]] = field(default_factory=list)
    units: dict[str, None] = field(default_factory=dict)
    pointers: dict[int, str] = field(default_factory=dict)
    scanned: int | None = -1
    known_units: dict[str, str] = field(default_factory=dict)
    known_names: dict[tuple[str, ...], str] = field(default_factory=dict)
    replicas: set[int] = field(default_factory=set)
    """The ids that DDP modules had when they were met first."""
    held: list[tuple[str, weakref.ref[nn.Parameter]]] = field(default_factory=list)

    def known(self, module: nn.Module) -> Place | None:
        """Where a module stands, if its model has run."""
        known = self.places.get(id(module))
        return known if known is not None and known.module() is module else None

    def unit_of_path(self, path: str) -> str:
        """The unit of a module or parameter of that path."""
        unit = self.known_units.get(path)
        if unit is None:
            unit = self.known_units[path] = unit_of(clean(path), self.units)
        return unit

    def units_of_paths(self, paths: Iterable[str]) -> str:
        """The units of several modules or parameters, as one name."""
        wanted = tuple(paths)
        name = self.known_names.get(wanted)
        if name is None:
            name = self.known_names[wanted] = joined(self.unit_of_path(path) for path in wanted)
        return name

    def unit_of_tensor(self, tensor: torch.Tensor, step: int | None) -> str | None:
        """The unit(s) of a parameter, a gradient, or a buffer that parameters are views of."""
        pointer = _pointer(tensor)
        if pointer not in self.pointers and self.scanned != step:
            self._scan()
            self.scanned = step
        return self.pointers.get(pointer)

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """All parameters of all models, by clean path."""
        for reference in self.roots:
            root = reference()
            if root is not None:
                for name, parameter in inner(root).named_parameters():
                    yield clean(name), parameter

    def learn(self, root: nn.Module) -> Place:
        """A module that stands nowhere yet is a model of its own."""
        held = inner(root)
        if isinstance(root, DistributedDataParallel):
            self.replicas.add(id(root))
        prefix = "" if not self._living(held) else f"{type(held).__name__}."
        units = {id(inner(m)): f"{prefix}{path}".rstrip(".") for path, m in units_of(root).items()}
        trained = next(root.parameters(), None) is not None
        if not trained:
            units = {id(root): type(root).__name__}
        else:
            self.roots.append(weakref.ref(root))
            self.units |= dict.fromkeys(units.values())
            self.known_units.clear()
            self.known_names.clear()
        inside = dict(held.named_modules())
        for name, module in inside.items():
            path = f"{prefix}{clean(name)}".rstrip(".")
            unit = units.get(id(module))
            self.places[id(module)] = Place(
                weakref.ref(module), path, unit, sharded=type(module).__name__.startswith("FSDP")
            )
        unit = units.get(id(root))
        place = Place(weakref.ref(root), prefix.rstrip("."), unit, root=trained)
        self.places[id(root)] = place
        self.held = [(self.unit_of_path(n), weakref.ref(p)) for n, p in self.parameters()]
        return place

    def _living(self, held: nn.Module) -> bool:
        """Whether there is another model; one that is a part of this one, or gone, does not count."""
        parts = {id(module) for module in held.modules()}
        living = [r for r in self.roots if (m := r()) is not None and id(inner(m)) not in parts]
        self.roots = living
        return bool(living)

    def _scan(self) -> None:
        found: dict[int, list[str]] = {}
        for unit, reference in self.held:
            parameter = reference()
            for tensor in () if parameter is None else (parameter, parameter.grad):
                if tensor is not None and tensor.layout is torch.strided:
                    found.setdefault(_pointer(tensor), []).append(unit)
                    found.setdefault(_storage(tensor), []).append(unit)
        self.pointers = {pointer: joined(units) for pointer, units in found.items()}


def _pointer(tensor: torch.Tensor) -> int:
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return 0


def _storage(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return 0
