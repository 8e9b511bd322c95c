"""Parameters as DeepSpeed meets them: in the order of definition, and as their gradients are ready."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zerosim.schedules import arrival
from zerosim.schedules.arrival import Key
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Slot:
    """One parameter: its place in the order of definition, and its elements.

    Its gradient first appears in the backward of layer `made` and is complete in that of layer
    `ready`: the last and the first layer that compute with it (None: no layer does).
    """

    index: int
    key: Key
    numel: int
    made: int | None
    ready: int | None


def defined(workload: Workload) -> tuple[Slot, ...]:
    """Parameters as `model.parameters()` lists them; those that no layer uses come last.

    The embedding comes before the blocks and the head after them, though they may be one unit.
    """
    made = arrival.layer_of(arrival.begun(workload))
    ready = arrival.layer_of(arrival.completed(workload))
    return tuple(
        Slot(index, key, arrival.numel(workload, key), made.get(key), ready.get(key))
        for index, key in enumerate(arrival.listed(workload))
    )


def in_arrival(workload: Workload, slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Those that get a gradient, as these are complete: see Note [Gradients arrive]."""
    by_key = {slot.key: slot for slot in slots}
    return tuple(by_key[key] for key in arrival.arrived(workload))
