"""Parameters by number, over all units in order, as partitions number them; and what to call a bucket of them.

The orders are those of `zerosim.schedules.arrival`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from zerosim.schedules import arrival
from zerosim.schedules.arrival import Key
from zerosim.workload import Workload


def used(workload: Workload) -> tuple[tuple[int, ...], ...]:
    """Per layer, the parameters it computes with."""
    return _by_layer(workload, arrival.used(workload))


def completed(workload: Workload) -> tuple[tuple[int, ...], ...]:
    """Per layer, the parameters whose gradients are complete with its backward, as they arrive."""
    return _by_layer(workload, arrival.completed(workload))


def begun(workload: Workload) -> tuple[tuple[int, ...], ...]:
    """Per layer, the parameters whose gradients its backward is the first to add to."""
    return _by_layer(workload, arrival.begun(workload))


def defined(workload: Workload) -> tuple[int, ...]:
    """Those that a layer uses, as `module.parameters()` lists them."""
    return numbers(workload, arrival.defined(workload))


def listed(workload: Workload) -> tuple[int, ...]:
    """All, as `module.parameters()` lists them; those that no layer uses come last."""
    return numbers(workload, arrival.listed(workload))


def numbers(workload: Workload, keys: Iterable[Key]) -> tuple[int, ...]:
    """The numbers of these parameters."""
    starts = [0, *accumulate(len(unit.parameters) for unit in workload.units)]
    return tuple(starts[unit] + index for unit, index in keys)


def _by_layer(workload: Workload, layers: Iterable[tuple[Key, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(numbers(workload, keys) for keys in layers)


def unit_names(workload: Workload) -> tuple[str, ...]:
    """The unit of every parameter."""
    return tuple(unit.name for unit in workload.units for _ in unit.parameters)


def label(names: Sequence[str], parameters: Sequence[int]) -> str:
    """How a bucket of parameters is called: its unit, or its first and last one."""
    first, last = names[parameters[0]], names[parameters[-1]]
    return first if first == last else f"{first}-{last}"
