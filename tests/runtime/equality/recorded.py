"""A plan beside what a real engine was recorded to do."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.plan import Plan
from zerosim_runtime.equality.seen import Seen, compared, n_collectives, planned


def check_equal(plan: Plan, seen: Sequence[Sequence[Seen]]) -> None:
    """Every rank did something, and what the plan says; `seen` has the rows of each."""
    assert len(seen) == plan.world_size
    for rank, rows in enumerate(seen):
        assert n_collectives(rows) > 0
        mismatch = compared(planned(plan, rank), rows)
        assert mismatch is None, mismatch.text
