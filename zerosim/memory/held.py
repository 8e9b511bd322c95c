"""The allocations of a plan as arrays: what is taken and dropped, by which op, of which kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerosim.kinds import MEMORY_KINDS, Kind
from zerosim.plan import Allocation, ByRank, Plan

Int = NDArray[np.int64]
KIND: Final = {kind: i for i, kind in enumerate(MEMORY_KINDS)}
THROUGHOUT: Final = -1
"""Stands for the op that takes, or drops, what is held throughout."""


@dataclass(frozen=True, slots=True)
class Held:
    """The allocations of a plan. `rows`: kind, bytes (the most), the op that takes, the op that drops.

    `by_rank`: (row, bytes of each rank) of those that differ by rank.
    """

    rows: Int
    by_rank: tuple[tuple[int, ByRank], ...]

    def nbytes(self, ranks: Sequence[int]) -> Int:
        """Bytes of each allocation on each of `ranks`: [rows] if all agree, else [rows, ranks]."""
        alike: Int = self.rows[:, 1]
        if not self.by_rank:
            return alike
        sizes = np.repeat(alike[:, None], len(ranks), axis=1)
        chosen = np.asarray(ranks)
        for row, by_rank in self.by_rank:
            counts, values = zip(*by_rank, strict=True)
            ends = np.cumsum(counts)
            sizes[row] = np.asarray(values, dtype=np.int64)[ends.searchsorted(chosen, side="right")]
        return sizes

    def unlike(self) -> tuple[int, ...]:
        """The first rank of each run of ranks that take the same throughout."""
        firsts = {0}
        for _, by_rank in self.by_rank:
            firsts.update(np.cumsum([count for count, _ in by_rank[:-1]]).tolist())
        return tuple(sorted(firsts))


def allocations(plan: Plan) -> Held:
    """Each allocation of a plan, with the op that takes it and the op that drops it."""
    rows = [(a, THROUGHOUT, THROUGHOUT) for a in plan.persistent]
    live: dict[str, tuple[Allocation, int]] = {}
    for op in plan.ops:
        for a in op.allocates:
            live[a.key] = (a, op.id)
        for key in op.frees:
            rows.append((*live.pop(key), op.id))  # noqa: PERF401 - most ops free one thing or none
    rows += [(*taken, THROUGHOUT) for taken in live.values()]
    table = [(KIND[a.kind], a.nbytes, by, until) for a, by, until in rows]
    uneven = tuple((i, a.by_rank) for i, (a, _, _) in enumerate(rows) if a.by_rank is not None)
    return Held(np.asarray(table, dtype=np.int64).reshape(-1, 4), uneven)


def gradients_of_update(plan: Plan, held: Held, ranks: Sequence[int]) -> tuple[int, ...]:
    """Bytes of gradients that each of `ranks` owns: those held throughout if there are any.

    Else what the first step's updates consume: flat copies that an engine makes for the update
    are no gradients of their own.
    """
    first = plan.ops[0].step if plan.ops else 0
    updates = [op.id for op in plan.ops if op.kind is Kind.OPTIMIZER and op.step == first]
    gradients = held.rows[:, 0] == KIND["gradients"]
    owned = gradients & (held.rows[:, 2] == THROUGHOUT)
    if not owned.any():
        owned = gradients & np.isin(held.rows[:, 3], updates)
    sums = np.broadcast_to(held.nbytes(ranks)[owned].sum(axis=0), len(ranks))
    return tuple(int(total) for total in sums)
