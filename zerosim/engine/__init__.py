"""The simulated clock: a plan and a cluster in, a Trace out.

Two engines give the same integers: SimPy, the reference, and numpy max-plus, the fast path. Max-plus
is exact unless what runs at once takes from each other: two transfers one link's rate, which SimPy
shares max-min fairly, or a collective SMs and memory bandwidth from kernels, which are then stretched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zerosim.cluster import Cluster
from zerosim.engine.events import run
from zerosim.engine.folding import Folded, fold, unfolded
from zerosim.engine.maxplus import solve
from zerosim.engine.program import Int, Program, Times, timed
from zerosim.engine.record import Recording, record
from zerosim.engine.stretched import settle
from zerosim.engine.variation import EQUAL, Variation, durations, shares_left
from zerosim.errors import PlanError
from zerosim.plan import Plan
from zerosim.registry import Registry
from zerosim.trace import ModelFacts, Trace

MAX_CELLS: Final = 2**21
"""So many spans of ranks that differ are recorded: about a minute and a gigabyte."""
Engine = Callable[[Program, Folded, Variation], tuple[Times, str]]


def simulate(
    plan: Plan,
    cluster: Cluster,
    variation: Variation = EQUAL,
    *,
    engine: str = "auto",
    name: str | None = None,
    scenario: dict[str, Any] | None = None,
    model: ModelFacts | None = None,
    allocator: str = "none",
    arrivals: str = "barrier",
) -> Trace:
    """Simulate every rank of `plan` on `cluster`.

    `engine`: auto, maxplus, stretched, simpy or unfolded (SimPy without folding). `name` (else the plan's),
    `scenario` and `model` go into the header of the run. `allocator`: caching records what PyTorch's
    caching allocator would reserve; none does not, which is faster. `arrivals`: a collective moves
    bytes once all have come (barrier), or message by message where it runs as a ring (ring).
    Raises PlanError for a plan that waits for itself or would not fit in memory, UnknownNameError for
    an unknown engine, allocator or kind of arrival.
    """
    caching = ALLOCATORS[allocator]
    program, folded, times, ran = _timed(plan, cluster, variation, engine, arrivals)
    meta = {"device": cluster.device.name, "scenario": scenario, "model": model}
    recording = Recording(name or plan.name, ran, cluster.backend, meta, caching)
    return record(plan, program, folded, times, recording)


def moments(
    plan: Plan,
    cluster: Cluster,
    variation: Variation,
    rank: int,
    *,
    engine: str = "auto",
    arrivals: str = "barrier",
) -> tuple[list[int], list[int]]:
    """When the host of `rank` issues each op, and when it ends, in ns. Raises as `simulate` does."""
    _, folded, times, _ = _timed(plan, cluster, variation, engine, arrivals)
    mine = int(folded.class_of[rank])
    return times.issued[:, mine].tolist(), times.end[:, mine].tolist()


def _timed(
    plan: Plan, cluster: Cluster, variation: Variation, engine: str, arrivals: str
) -> tuple[Program, Folded, Times, str]:
    chosen, program = ENGINES[engine], timed(plan, cluster, messages=ARRIVALS[arrivals])
    folded = unfolded(program) if engine == "unfolded" else fold(program, variation)
    if folded.n_classes * len(program.ops) > MAX_CELLS:
        raise PlanError(
            f"{folded.n_classes} ranks that differ run {len(program.ops)} ops each, over "
            f"{MAX_CELLS} in all: lower world_size, layers or steps, or let ranks be equal"
        )
    times, ran = chosen(program, folded, variation)
    return program, folded, times, ran


def _max_plus(program: Program, folded: Folded, variation: Variation) -> tuple[Times, str]:
    return solve(program, folded, durations(program, variation, folded.representatives)), "maxplus"


def _simpy(program: Program, folded: Folded, variation: Variation) -> tuple[Times, str]:
    given = durations(program, variation, folded.representatives)
    chosen = list(folded.representatives)
    shares = {
        link: share[chosen].tolist()
        for link, share in shares_left(variation, program.n_ranks).items()
    }
    fluid = program.contention.links
    return run(program, folded, given, fluid=fluid, shares=shares), "simpy"


def _stretched(program: Program, folded: Folded, variation: Variation) -> tuple[Times, str]:
    given = durations(program, variation, folded.representatives)
    times = settle(program, folded, given, solve(program, folded, given))
    return _simpy(program, folded, variation) if times is None else (times, "stretched")


def _auto(program: Program, folded: Folded, variation: Variation) -> tuple[Times, str]:
    if any(program.keeps(op.transfer) < 1 for op in program.ops if op.transfer is not None):
        return _simpy(program, folded, variation)
    given = durations(program, variation, folded.representatives)
    times, ran = solve(program, folded, given), "maxplus"
    if program.contention.of_kernels and kernels_overlap(program, times):
        settled = settle(program, folded, given, times)
        if settled is None:
            return _simpy(program, folded, variation)
        times, ran = settled, "stretched"
    if program.contention.links and transfers_overlap(program, times, given):
        return _simpy(program, folded, variation)
    return times, ran


ENGINES: Final = Registry(
    "engine",
    {
        "auto": _auto,
        "maxplus": _max_plus,
        "stretched": _stretched,
        "simpy": _simpy,
        "unfolded": _simpy,
    },
)
ALLOCATORS: Final = Registry("allocator", {"none": False, "caching": True})
"""Whether what is reserved is followed."""
ARRIVALS: Final = Registry("kind of arrival", {"barrier": False, "ring": True})
"""Whether the messages of a ring are followed."""


def transfers_overlap(program: Program, times: Times, given: list[Int | int]) -> bool:
    """Whether two transfers load one link at the same moment on any rank, going by `times`.

    `given`: what each op takes on each class. If none do, sharing the links changes nothing and
    max-plus is exact.
    """
    moving = [
        i
        for i, op in enumerate(program.ops)
        if op.transfer is not None and op.transfer.loads and op.ring is None
    ]
    if not moving:
        return False
    ends = times.end[moving]
    wire = [np.maximum(0, np.subtract(given[i], _latency(program, i))) for i in moving]
    starts = ends - np.stack([np.broadcast_to(ns, ends.shape[1:]) for ns in wire])
    order = np.argsort(starts, axis=0, kind="stable")
    starts = np.take_along_axis(starts, order, axis=0)
    ends = np.maximum.accumulate(np.take_along_axis(ends, order, axis=0), axis=0)
    return bool((starts[1:] < ends[:-1]).any())


def _latency(program: Program, i: int) -> int:
    moved = program.ops[i].transfer
    return 0 if moved is None else moved.latency_ns


def kernels_overlap(program: Program, times: Times) -> bool:
    """Whether kernels run beside a collective that takes from them, on any rank, going by `times`."""
    kernels = [i for i, op in enumerate(program.ops) if op.kernels is not None]
    beside = [i for i, op in enumerate(program.ops) if op.taken is not None]
    if not kernels or not beside:
        return False
    for c in range(times.start.shape[1]):
        starts, ends = times.start[beside, c], times.end[beside, c]
        order = np.argsort(starts, kind="stable")
        latest = np.maximum.accumulate(ends[order])
        before = np.searchsorted(starts[order], times.end[kernels, c])
        longest = np.where(before > 0, latest[before - 1], 0)
        if (longest > times.start[kernels, c]).any():
            return True
    return False


__all__ = [
    "ALLOCATORS",
    "ARRIVALS",
    "ENGINES",
    "EQUAL",
    "Variation",
    "kernels_overlap",
    "moments",
    "simulate",
    "transfers_overlap",
]
