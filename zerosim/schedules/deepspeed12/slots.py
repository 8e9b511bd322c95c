"""Parameters as an engine meets them: in the order of definition, and as their gradients are ready."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zerosim.workload import Layer, Workload


@dataclass(frozen=True, slots=True)
class Slot:
    """One parameter: its place in the order of definition, its module's, and its elements.

    Its gradient first appears in the backward of layer `made` and is complete in that of layer
    `ready`: the last and the first layer that compute with it (None: no layer does).
    """

    index: int
    module: int
    vector: bool
    numel: int
    made: int | None
    ready: int | None


def defined(workload: Workload) -> tuple[Slot, ...]:
    """Parameters as `model.parameters()` lists them: layer by layer, module by module, each once.

    The embedding comes before the blocks and the head after them, though they may be one unit.
    """
    users: dict[tuple[int, int], list[int]] = {}
    modules: dict[tuple[int, int], int] = {}
    for i, layer in enumerate(workload.layers):
        for module in _modules(workload, layer):
            number = len(users)
            for parameter in module:
                users.setdefault((layer.unit, parameter), []).append(i)
                modules.setdefault((layer.unit, parameter), number)
    for u, unit in enumerate(workload.units):
        for p in range(len(unit.parameters)):
            users.setdefault((u, p), [])
    return tuple(
        Slot(
            index,
            modules.get((u, p), index),
            len(workload.units[u].parameters[p].shape) <= 1,
            workload.units[u].parameters[p].numel,
            max(layers, default=None),
            min(layers, default=None),
        )
        for index, ((u, p), layers) in enumerate(users.items())
    )


def ready(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """Those that get a gradient, as these are complete: layers and their modules backwards.

    # Note [Vectors before matrices]
    Within a module torch's autograd hands out the gradients of vectors first, in order of definition
    (a norm's weight, then its bias); a Linear's weight comes after its bias, since it takes another
    node (the transpose).
    """
    return tuple(sorted((slot for slot in slots if slot.ready is not None), key=_readiness))


def _readiness(slot: Slot) -> tuple[int, int, bool, int]:
    within = slot.index if slot.vector else -slot.index
    return -(slot.ready or 0), -slot.module, not slot.vector, within


def _modules(workload: Workload, layer: Layer) -> Iterator[tuple[int, ...]]:
    """The parameters of each module of a layer, as places in its unit; by name if it lists none."""
    if layer.modules:
        yield from (module.parameters for module in layer.modules)
        return
    by_name: dict[str, list[int]] = {}
    for i, parameter in enumerate(workload.units[layer.unit].parameters):
        by_name.setdefault(parameter.name.rpartition(".")[0], []).append(i)
    yield from map(tuple, by_name.values())
