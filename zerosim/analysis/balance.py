"""Who carries how much: bytes of model states and busy time of every rank."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.analysis.busy import UNKNOWN, busy_whole
from zerosim.trace import Trace


@dataclass(frozen=True, slots=True)
class Load:
    """What one rank, or each of the ranks it stands for, owns (bytes) and how long it worked (ns).

    `members` are inclusive ranges of ranks. Null is unknown.
    """

    rank: int
    members: tuple[tuple[int, int], ...]
    parameters: int | None
    gradients: int | None
    optimizer: int | None
    compute_ns: int | None
    comm_ns: int | None


def rank_loads(trace: Trace) -> tuple[Load, ...]:
    """The load of each rank that has rows or known states, ascending by rank."""
    busy = busy_whole(trace)
    states = {s.rank: s for s in trace.meta.states}
    present = set(trace.ranks)
    classes = {c.representative: c for c in trace.meta.classes}
    loads = []
    for rank in sorted(present | set(states)):
        state, worked = states.get(rank), busy.get(rank, UNKNOWN)
        stands = classes.get(rank)
        folded = stands is not None and not present & (set(stands.ranks) - {rank})
        loads.append(
            Load(
                rank=rank,
                members=stands.members if stands is not None and folded else ((rank, rank),),
                parameters=state.parameters if state else None,
                gradients=state.gradients if state else None,
                optimizer=state.optimizer if state else None,
                compute_ns=worked.compute_ns,
                comm_ns=worked.comm_ns,
            )
        )
    return tuple(loads)


@dataclass(frozen=True, slots=True)
class Ownership:
    """How evenly optimizer states are spread over `n_ranks`. 1.0 for `max_over_mean` is even."""

    n_ranks: int
    empty_ranks: int
    largest_bytes: int
    max_over_mean: float


def ownership(trace: Trace) -> Ownership | None:
    """Who owns optimizer states and who has none; None if a rank's are unknown or there are none."""
    loads = rank_loads(trace)
    counts = tuple(sum(b - a + 1 for a, b in load.members) for load in loads)
    sizes = tuple(load.optimizer for load in loads)
    ratio = imbalance(sizes, counts)
    if ratio is None:
        return None
    empty = sum(n for n, nbytes in zip(counts, sizes, strict=True) if nbytes == 0)
    return Ownership(sum(counts), empty, max(nbytes or 0 for nbytes in sizes), ratio)


def imbalance(values: tuple[int | None, ...], counts: tuple[int, ...] = ()) -> float | None:
    """The largest of `values` over their mean: 1.0 is even. None if any is unknown or all are 0.

    `counts`: how many ranks each value stands for (one each if left out).
    """
    known = [v for v in values if v is not None]
    weights = counts or (1,) * len(values)
    if len(known) < len(values) or not sum(known):
        return None
    total = sum(n * v for n, v in zip(weights, known, strict=True))
    return max(known) * sum(weights) / total
