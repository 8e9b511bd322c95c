"""FSDP2's parameter groups: what each fully_shard call manages, and how its rows are padded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from zerosim.partition import chunk
from zerosim.schedules.arrival import Key, begun, used
from zerosim.workload import Layer, Parameter, Workload


@dataclass(frozen=True, slots=True)
class Flat:
    """Parameters side by side in one flat buffer, each cut along its first dimension by torch.chunk.

    Every rank stores and sends ceil(d0 / shards) rows of each, `shard` elements in all; the last ranks
    may own no real row. `numel`: elements without the padding.
    """

    shards: int
    shard: int
    numel: int

    @property
    def elements(self) -> int:
        """Elements of the whole buffer, the padding of rows included."""
        return self.shard * self.shards


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that one `fully_shard` call gathers, frees and reduces together.

    `gathered` are all of them, `reduced` those that get a gradient (`trained`). `reshard_to`: the ranks
    over which the group is kept after the forward (torch's `reshard_after_forward`: all that share it
    is True, 0 is False).
    """

    label: str
    gathered: Flat
    reduced: Flat
    trained: tuple[Parameter, ...]
    reshard_to: int

    @property
    def shards(self) -> int:
        """Ranks that share the parameters."""
        return self.gathered.shards


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Layers of one module that was wrapped; `group` is None for layers of the root itself.

    `first`: nothing before it has parameters, so its input needs no gradient.
    """

    layers: tuple[Layer, ...]
    group: Group | None
    first: bool


@dataclass(frozen=True, slots=True)
class Wrapping:
    """A model after its `fully_shard` calls: the root's group (None: no parameters) and the modules.

    By layer name, `makes` are the parameters whose first gradient the layer makes in a backward, and
    `adds` those that have one by then (a tied embedding). `idle`: groups that no layer computes with.
    """

    root: Group | None
    modules: tuple[Wrapped, ...]
    idle: tuple[Group, ...]
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
    parts = _Parts(workload, calls.shards, *_gradients(workload))
    every = range(len(workload.units))
    roots = set(_roots(workload) if calls.wrap_layers else every)
    runs = [tuple(run) for _, run in groupby(workload.layers, key=lambda layer: layer.unit)]
    wrapped = [run for run in runs if run[0].unit not in roots]
    modules: list[Wrapped] = []
    first = True
    for run in runs:
        unit = run[0].unit
        to = calls.last_to if wrapped and run is wrapped[-1] else calls.inner_to
        group = None if unit in roots else parts.group([unit], to)
        modules.append(Wrapped(run, group, first))
        first = first and not workload.units[unit].numel
    unused = [unit for unit, uses in enumerate(workload.uses()) if not uses and unit not in roots]
    idle = (parts.group([unit], calls.inner_to) for unit in unused)
    root = parts.group(sorted(roots), calls.root_to)
    makes, adds = parts.by_layer(parts.makes), parts.by_layer(parts.adds)
    return Wrapping(root, tuple(modules), tuple(filter(None, idle)), makes, adds)


def _roots(workload: Workload) -> Iterator[int]:
    """Units that no wrapped module holds: named root, or used by layers that stand apart."""
    for unit, uses in enumerate(workload.uses()):
        apart = bool(uses) and uses[-1] - uses[0] >= len(uses)
        if apart or workload.units[unit].name == "root":
            yield unit


_Places = dict[str, tuple[Key, ...]]
"""Parameters by layer name."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What groups are made of."""

    workload: Workload
    shards: int
    makes: _Places
    adds: _Places

    def group(self, units: list[int], reshard_to: int) -> Group | None:
        """The group of all parameters of `units`; None if they have none."""
        named = [self.workload.units[unit].name for unit in units]
        got = {place for places in self.makes.values() for place in places}
        places = [(u, i) for u in units for i in range(len(self.workload.units[u].parameters))]
        trained = self.parameters(place for place in places if place in got)
        if not places:
            return None
        label = named[0] if named[0] == named[-1] else f"{named[0]}-{named[-1]}"
        gathered = _flat(self.parameters(places), self.shards)
        return Group(label, gathered, _flat(trained, self.shards), trained, reshard_to)

    def parameters(self, places: Iterable[Key]) -> tuple[Parameter, ...]:
        """The parameters at these places."""
        return tuple(self.workload.units[unit].parameters[i] for unit, i in places)

    def by_layer(self, places: _Places) -> dict[str, tuple[Parameter, ...]]:
        """The parameters of each layer."""
        return {layer: self.parameters(found) for layer, found in places.items()}


def _flat(parameters: tuple[Parameter, ...], shards: int) -> Flat:
    shard = sum(chunk(parameter, shards) for parameter in parameters)
    return Flat(shards, shard, sum(parameter.numel for parameter in parameters))


def _gradients(workload: Workload) -> tuple[_Places, _Places]:
    """Which layer of the backward makes the first gradient of which parameter, and which adds to it."""
    makes: _Places = {}
    adds: _Places = {}
    for layer, begins, uses in zip(workload.layers, begun(workload), used(workload), strict=True):
        makes[layer.name] = begins
        # Without modules nobody knows which of the unit's parameters the layer computes with.
        adds[layer.name] = tuple(k for k in uses if k not in begins) if layer.modules else ()
    return makes, adds
