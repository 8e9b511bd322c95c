"""The most that a rank holds at once, from the plan alone: memory is taken and dropped in host order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zerosim.memory.held import KIND, THROUGHOUT, Held, Int, allocations, gradients_of_update
from zerosim.plan import Plan

_AT_ONCE: Final = 64
"""Ranks that differ are followed so many at a time: a row of each for every change."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the ranks from `first` to `last` hold when they hold most.

    `by_kind` sums to `peak_bytes`. `op` and `step` are where; None if nothing beats what is held
    throughout. `states` are what they own: parameters, gradients as the first update finds them,
    optimizer states.
    """

    first: int
    last: int
    peak_bytes: int
    by_kind: dict[str, int]
    op: str | None
    step: int | None
    states: dict[str, int]

    @property
    def states_bytes(self) -> int:
        """All states together."""
        return sum(self.states.values())


def footprints(plan: Plan) -> tuple[Footprint, ...]:
    """One of each run of equal ranks, in the order of the ranks."""
    held = allocations(plan)
    firsts = held.unlike()
    lasts = (*(first - 1 for first in firsts[1:]), plan.world_size - 1)
    found: list[Footprint] = []
    for at in range(0, len(firsts), _AT_ONCE):
        chunk = slice(at, at + _AT_ONCE)
        found += _footprints(plan, held, firsts[chunk], lasts[chunk])
    return tuple(found)


def heaviest(plan: Plan) -> Footprint:
    """That of the first ranks which hold most.

    Ranks none of whose allocations is larger than those of the rank that takes most in all hold no
    more than it at any time, so they are left out.
    """
    held = allocations(plan)
    firsts = np.asarray(held.unlike())
    lasts = np.append(firsts[1:], plan.world_size) - 1
    sizes = held.nbytes(firsts.tolist()).reshape(len(held.rows), -1)
    most = sizes.sum(axis=0).argmax()
    kept = np.union1d(np.flatnonzero((sizes > sizes[:, [most]]).any(axis=0)), most)
    found = _footprints(plan, held, firsts[kept].tolist(), lasts[kept].tolist())
    return max(found, key=lambda f: f.peak_bytes)


def _footprints(
    plan: Plan, held: Held, firsts: Sequence[int], lasts: Sequence[int]
) -> list[Footprint]:
    kind, _, by, until = held.rows.T
    dropped = until != THROUGHOUT
    nbytes = held.nbytes(firsts).reshape(len(kind), -1)
    place = np.concatenate([2 * by, 2 * until[dropped] + 1])
    order = place.argsort(kind="stable")
    changes = np.concatenate([nbytes, -nbytes[dropped]])[order]
    kinds = np.concatenate([kind, kind[dropped]])[order]
    totals = changes.cumsum(axis=0)
    gradients = gradients_of_update(plan, held, firsts)
    found: list[Footprint] = []
    for i, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        column = min(i, changes.shape[1] - 1)
        at = int(totals[:, column].argmax()) if len(totals) else -1
        by_kind = _by_kind(kinds[: at + 1], changes[: at + 1, column])
        op = plan.ops[place[order[at]] // 2] if at >= 0 and place[order[at]] >= 0 else None
        footprint = Footprint(
            first=first,
            last=last,
            peak_bytes=sum(by_kind.values()),
            by_kind=by_kind,
            op=op.name if op else None,
            step=op.step if op else None,
            states=_states(plan, first, gradients[i]),
        )
        found.append(footprint)
    return found


def _by_kind(kinds: Int, changes: Int) -> dict[str, int]:
    return {kind: int(changes[kinds == number].sum()) for kind, number in KIND.items()}


def _states(plan: Plan, rank: int, gradients: int) -> dict[str, int]:
    owned = {"parameters": 0, "gradients": gradients, "optimizer": 0}
    for allocation in plan.persistent:
        if allocation.kind in ("parameters", "optimizer"):
            owned[allocation.kind] += allocation.at(rank)
    return owned
