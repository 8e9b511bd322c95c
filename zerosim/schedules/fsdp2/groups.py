"""FSDP2's parameter groups: what each fully_shard call manages, and how its rows are padded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from zerosim.partition import chunk
from zerosim.workload import Layer, Parameter, Workload


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that one `fully_shard` call gathers, frees and reduces together.

    `elements` are those of the gathered group, `shard` what each rank stores: torch.chunk cuts the
    first dimension over `shards` ranks, so every rank stores and sends ceil(d0 / shards) rows of each
    parameter, and the last ranks may own no real row. `reshard_to`: the ranks over which the group is
    kept after the forward (torch's `reshard_after_forward`: `shards` is True, 0 is False).
    """

    label: str
    parameters: tuple[Parameter, ...]
    shards: int
    reshard_to: int
    shard: int

    @property
    def elements(self) -> int:
        """Elements of the gathered group, the padding of rows included."""
        return self.shard * self.shards

    @property
    def numel(self) -> int:
        """Elements of the group without padding."""
        return sum(parameter.numel for parameter in self.parameters)


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Layers of one module that was wrapped; `group` is None for layers of the root itself."""

    layers: tuple[Layer, ...]
    group: Group | None


@dataclass(frozen=True, slots=True)
class Wrapping:
    """A model after its `fully_shard` calls: the root's group (None: no parameters) and the modules.

    By layer name, `makes` are the parameters whose first gradient the layer makes in a backward, and
    `adds` those that have one by then (a tied embedding).
    """

    root: Group | None
    modules: tuple[Wrapped, ...]
    makes: dict[str, tuple[Parameter, ...]]
    adds: dict[str, tuple[Parameter, ...]]

    @property
    def inner(self) -> tuple[Group, ...]:
        """The groups of the wrapped modules, in forward order."""
        return tuple(module.group for module in self.modules if module.group is not None)

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, the root's first: the order of named_modules()."""
        return (*((self.root,) if self.root is not None else ()), *self.inner)


@dataclass(frozen=True, slots=True)
class Calls:
    """The `fully_shard` calls: over how many ranks, and what each kind of group is resharded to."""

    shards: int
    root_to: int
    inner_to: int
    last_to: int
    wrap_layers: bool


def wrapping(workload: Workload, calls: Calls) -> Wrapping:
    """Wrap each unit (if `wrap_layers`) and then the model."""
    every = range(len(workload.units))
    roots = set(_roots(workload) if calls.wrap_layers else every)
    runs = [tuple(run) for _, run in groupby(workload.layers, key=lambda layer: layer.unit)]
    wrapped = [run for run in runs if run[0].unit not in roots]
    modules = []
    for run in runs:
        to = calls.last_to if wrapped and run is wrapped[-1] else calls.inner_to
        units = [] if run[0].unit in roots else [run[0].unit]
        modules.append(Wrapped(run, _group(workload, units, calls.shards, to)))
    root = _group(workload, sorted(roots), calls.shards, calls.root_to)
    return Wrapping(root, tuple(modules), *_gradients(workload))


def _roots(workload: Workload) -> Iterator[int]:
    """Units that no wrapped module holds: named root, or used by layers that stand apart."""
    for unit, uses in enumerate(workload.uses()):
        apart = not uses or uses[-1] - uses[0] >= len(uses)
        if apart or workload.units[unit].name == "root":
            yield unit


def _group(workload: Workload, units: list[int], shards: int, reshard_to: int) -> Group | None:
    parameters = tuple(p for unit in units for p in workload.units[unit].parameters)
    if not parameters:
        return None
    first, last = workload.units[units[0]].name, workload.units[units[-1]].name
    label = first if first == last else f"{first}-{last}"
    shard = sum(chunk(parameter, shards) for parameter in parameters)
    return Group(label, parameters, shards, reshard_to, shard)


def _gradients(
    workload: Workload,
) -> tuple[dict[str, tuple[Parameter, ...]], dict[str, tuple[Parameter, ...]]]:
    """Which layer of the backward makes the first gradient of which parameter, and which adds to it."""
    seen: set[tuple[int, int]] = set()
    makes, adds = {}, {}
    for layer in reversed(workload.layers):
        every = workload.units[layer.unit].parameters
        used = sorted({i for module in layer.modules for i in module.parameters})
        # Without modules nobody knows which of the unit's parameters the layer computes with.
        new = [i for i in used or range(len(every)) if (layer.unit, i) not in seen]
        makes[layer.name] = tuple(every[i] for i in new)
        adds[layer.name] = tuple(every[i] for i in used if (layer.unit, i) in seen)
        seen.update((layer.unit, i) for i in new)
    return makes, adds
