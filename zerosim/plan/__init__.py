"""A plan: the program of a rank, and what writes it."""

from __future__ import annotations

from zerosim.plan.ops import Allocation, Axis, ByRank, Op, Plan, at_rank, spread, uneven
from zerosim.plan.writer import PlanWriter

__all__ = [
    "Allocation",
    "Axis",
    "ByRank",
    "Op",
    "Plan",
    "PlanWriter",
    "at_rank",
    "spread",
    "uneven",
]
