"""Which parameters come again soon: the trace's modules looked up, instead of walked at every module."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from zerosim.schedules.deepspeed3.modules import Node


@dataclass(frozen=True, slots=True)
class Uses:
    """`before`: elements of all modules before each place of a trace; `places` of each parameter."""

    before: tuple[int, ...]
    places: dict[int, list[int]]


def uses_of(trace: Sequence[Node], numel: Sequence[int], *, recurse: bool) -> Uses:
    """The uses of a trace, of modules with all inside them if `recurse`."""
    places: dict[int, list[int]] = {}
    sizes: list[int] = []
    for place, node in enumerate(trace):
        used = node.ids(recurse=recurse)
        sizes.append(sum(numel[p] for p in used))
        for p in used:
            places.setdefault(p, []).append(place)
    return Uses((0, *accumulate(sizes)), places)


def again(uses: Uses, parameters: Iterable[int], step: int, distance: int) -> set[int]:
    """Those of `parameters` used from `step` on, until so many elements have passed."""
    end = bisect_left(uses.before, uses.before[step] + distance, lo=step)
    found: set[int] = set()
    for p in parameters:
        places = uses.places.get(p, [])
        at = bisect_left(places, step)
        if at < len(places) and places[at] < end:
            found.add(p)
    return found
