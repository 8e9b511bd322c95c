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


def imbalance(values: tuple[int | None, ...]) -> float | None:
    """The largest of `values` over their mean: 1.0 is even. None if any is unknown or all are 0."""
    known = [v for v in values if v is not None]
    if len(known) < len(values) or not sum(known):
        return None
    return max(known) * len(known) / sum(known)
