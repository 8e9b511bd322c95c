"""When the nodes of a Chakra file ran: as it says, or else as early as what they wait for allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from zerosim.errors import TraceFileError
from zerosim.importers.chakra.nodes import ChakraNode
from zerosim.units import NS_PER_US

_MOST_NS: Final = 2**62
_UPTIME_US: Final = 10**9
"""Where the first start is later than this, one of 0 is none: a clock does not begin with the run."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Start and end of each node in ns. `inferred`: they were laid out; `circling`: wait for each other."""

    times: tuple[tuple[int, int], ...]
    inferred: bool
    circling: int = 0


def lay_out(source: str, nodes: Sequence[ChakraNode], lanes: Sequence[str]) -> Layout:
    """The times of `nodes`, of which those of one lane run one after the other.

    Raises TraceFileError, naming `source`, where they do not fit into an int64.
    """
    starts = [node.start_us for node in nodes if node.start_us]
    if not starts:
        return _laid_out(source, nodes, lanes)
    least = min(starts)
    origin = least if least > _UPTIME_US else 0
    begun = [max(node.start_us, origin) * NS_PER_US for node in nodes]
    return Layout(
        tuple((at, at + n.micros * NS_PER_US) for at, n in zip(begun, nodes, strict=True)), False
    )


def _laid_out(source: str, nodes: Sequence[ChakraNode], lanes: Sequence[str]) -> Layout:
    place: dict[int, int] = {}
    for i, node in enumerate(nodes):
        place.setdefault(node.id, i)
    tells = any(node.data_deps for node in nodes)  # else the file is older, and all are ctrl_deps
    told = [node.data_deps if tells else node.ctrl_deps for node in nodes]
    after = [sorted({place[d] for d in deps if d in place} - {i}) for i, deps in enumerate(told)]
    followers: list[list[int]] = [[] for _ in nodes]
    for i, waits in enumerate(after):
        for j in waits:
            followers[j].append(i)
    missing = [len(waits) for waits in after]
    ready, ended, free = [0] * len(nodes), [-1] * len(nodes), dict.fromkeys(lanes, 0)
    queue = [i for i, count in enumerate(missing) if not count]
    heapify(queue)

    def run(i: int) -> None:
        start = max(ready[i], free[lanes[i]])
        ended[i] = free[lanes[i]] = start + nodes[i].micros * NS_PER_US

    while queue:
        i = heappop(queue)
        run(i)
        for j in followers[i]:
            ready[j], missing[j] = max(ready[j], ended[i]), missing[j] - 1
            if not missing[j]:
                heappush(queue, j)
    circling = [i for i, end in enumerate(ended) if end < 0]
    for i in circling:
        run(i)
    if max(ended, default=0) > _MOST_NS:
        raise TraceFileError(
            f"'{source}' lasts {max(ended)} ns by its durations: record a run again"
        )
    times = ((end - n.micros * NS_PER_US, end) for end, n in zip(ended, nodes, strict=True))
    return Layout(tuple(times), True, len(circling))
