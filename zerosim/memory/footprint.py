"""The most that a rank holds at once, from the plan alone: memory is taken and dropped in host order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerosim.kinds import MEMORY_KINDS, Kind
from zerosim.plan import Plan

Int = NDArray[np.int64]
_KIND: Final = {kind: i for i, kind in enumerate(MEMORY_KINDS)}


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
    return (_footprint(plan, 0, plan.world_size - 1),)


def heaviest(plan: Plan) -> Footprint:
    """That of the ranks which hold most."""
    return max(footprints(plan), key=lambda f: f.peak_bytes)


def _footprint(plan: Plan, first: int, last: int) -> Footprint:
    held = np.zeros(len(MEMORY_KINDS), dtype=np.int64)
    for allocation in plan.persistent:
        held[_KIND[allocation.kind]] += allocation.nbytes
    kinds, changes, ops = _changes(plan)
    totals = held.sum() + np.concatenate([[0], changes.cumsum()])
    at = int(totals.argmax())
    by_kind = held + np.bincount(kinds[:at], changes[:at], minlength=len(held)).astype(np.int64)
    op = plan.ops[ops[at - 1]] if at else None
    return Footprint(
        first=first,
        last=last,
        peak_bytes=int(totals[at]),
        by_kind={kind: int(by_kind[i]) for kind, i in _KIND.items()},
        op=op.name if op else None,
        step=op.step if op else None,
        states=_states(plan),
    )


def _changes(plan: Plan) -> tuple[Int, Int, Int]:
    """Kind, bytes and op of each change, in host order: what an op takes, then what it drops."""
    rows: list[tuple[int, int, int]] = []
    live: dict[str, tuple[int, int]] = {}
    for op in plan.ops:
        for allocation in op.allocates:
            kind = _KIND[allocation.kind]
            live[allocation.key] = kind, allocation.nbytes
            rows.append((kind, allocation.nbytes, op.id))
        for key in op.frees:
            kind, nbytes = live.pop(key)
            rows.append((kind, -nbytes, op.id))
    kinds, changes, ops = np.asarray(rows, dtype=np.int64).reshape(-1, 3).T
    return kinds, changes, ops


def _states(plan: Plan) -> dict[str, int]:
    owned = dict.fromkeys(("parameters", "gradients", "optimizer"), 0)
    for allocation in plan.persistent:
        if allocation.kind in owned:
            owned[allocation.kind] += allocation.nbytes
    update = next((op for op in plan.ops if op.kind is Kind.OPTIMIZER), None)
    consumed = set(update.frees) if update else set()
    for op in plan.ops[: update.id if update else 0]:
        for allocation in op.allocates:
            if allocation.kind == "gradients" and allocation.key in consumed:
                owned["gradients"] += allocation.nbytes
    return owned
