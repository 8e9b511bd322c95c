"""When gradients are ready: which parameters a layer uses and completes, and which bucket is full then.

Parameters are numbered over all units in order, as partitions number them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.workload import Workload


def used(workload: Workload) -> tuple[tuple[int, ...], ...]:
    """Per layer, the parameters it computes with: its modules', or all of its unit's."""
    first, starts = 0, []
    for unit in workload.units:
        starts.append(first)
        first += len(unit.parameters)
    named: dict[int, set[int]] = {}
    for layer in workload.layers:
        own = named.setdefault(layer.unit, set())
        own.update(i for module in layer.modules for i in module.parameters)
    found = []
    for layer in workload.layers:
        every = range(len(workload.units[layer.unit].parameters))
        mine = {i for module in layer.modules for i in module.parameters}
        # What no module names is used by all layers of the unit, as far as anyone can tell.
        chosen = [i for i in every if not mine or i in mine or i not in named[layer.unit]]
        found.append(tuple(starts[layer.unit] + i for i in chosen))
    return tuple(found)


def module_order(uses: Sequence[Sequence[int]], n_parameters: int = 0) -> tuple[int, ...]:
    """Parameters as a model's modules list them: by the first layer that uses them.

    Of `n_parameters`, those that no layer uses come last; without it they are left out.
    """
    listed = dict.fromkeys(i for parameters in uses for i in parameters)
    return (*listed, *(i for i in range(n_parameters) if i not in listed))


def ready(uses: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Per layer, the parameters whose gradients it completes, as it is the first to use them.

    Within a layer the last parameter comes first, as autograd does it.
    """
    seen: set[int] = set()
    done = []
    for parameters in uses:
        done.append(tuple(sorted(set(parameters) - seen, reverse=True)))
        seen.update(parameters)
    return tuple(done)


def made(uses: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Per layer, the parameters whose gradients its backward makes, as it is the last to use them."""
    return tuple(reversed(ready(tuple(reversed(uses)))))


def without(workload: Workload, dropped: str) -> Workload:
    """The workload as if its forward left out the layers named in `dropped` (commas between)."""
    names = [name.strip() for name in dropped.split(",") if name.strip()]
    known = [layer.name for layer in workload.layers]
    for name in names:
        if name not in known:
            raise UnknownNameError("layer", name, known)
    kept = tuple(layer for layer in workload.layers if layer.name not in names)
    if not kept:
        raise ScenarioError(f"schedule.drop_layers is '{dropped}': leave at least one layer")
    return replace(workload, layers=kept)


def unit_names(workload: Workload) -> tuple[str, ...]:
    """The unit of every parameter."""
    return tuple(unit.name for unit in workload.units for _ in unit.parameters)


def label(names: Sequence[str], parameters: Sequence[int]) -> str:
    """How a bucket of parameters is called: its unit, or its first and last one."""
    first, last = names[parameters[0]], names[parameters[-1]]
    return first if first == last else f"{first}-{last}"


@dataclass(frozen=True, slots=True)
class Flush:
    """A bucket that is reduced when the gradient `at` arrives (None: when the backward is over)."""

    index: int
    at: int | None
    parameters: tuple[int, ...]
    owner: int = 0


def flushes(
    order: Sequence[int],
    *,
    numel: Sequence[int],
    held: Sequence[int],
    cap: int,
    owners: Mapping[int, int] | None = None,
) -> tuple[Flush, ...]:
    """ColossalAI's buckets: a gradient that would overflow its bucket has that reduced first.

    `numel`: elements of each arriving gradient; `held`: what it takes in the bucket, padding
    included. With `owners`, each owner has a bucket of its own, and what is left goes by owner.
    """
    filling: dict[int, list[int]] = {}
    found: list[tuple[int | None, int, list[int]]] = []
    for parameter in order:
        owner = owners[parameter] if owners is not None else 0
        bucket = filling.setdefault(owner, [])
        if bucket and sum(held[i] for i in bucket) + numel[parameter] > cap:
            found.append((parameter, owner, bucket))
            bucket = filling[owner] = []
        bucket.append(parameter)
    found += [(None, owner, filling[owner]) for owner in sorted(filling)]
    return tuple(Flush(i, at, tuple(bucket), owner) for i, (at, owner, bucket) in enumerate(found))
