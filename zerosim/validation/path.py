"""The critical path of a steady step, as how often each distinct op stands on it.

# Note [Paths while fitting]
A step takes as long as the longest path through its ops, and the length of a path is a sum: each op's
duration, and what its host takes to issue it. With other constants a path that is known is priced
anew without simulating, and is never longer than the step, which is the longest of all paths. So a fit
looks for the least error by the paths that it has seen, the longest of each row, simulates where that
leads, and adds the path found there, until a simulation finds nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zerosim.cluster import Cluster
from zerosim.engine import EQUAL, moments
from zerosim.engine.program import timed
from zerosim.plan import Op, Plan
from zerosim.units import NS_PER_S

Costs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Walk:
    """What a step took, in seconds, and its critical path.

    `durations` and `issues` say how often each distinct op lies on it, and how often its issuing.
    """

    seconds: float
    durations: tuple[int, ...]
    issues: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Walker:
    """A plan, one of each kind of its ops that cost the same as a plan of its own, and what each waits for.

    `number` says which of the distinct ops each op is like.
    """

    plan: Plan
    distinct: Plan
    number: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]

    def walk(self, cluster: Cluster) -> Walk:
        """Simulate the plan and go back along its critical path, from its end to the step before."""
        issued, ends = moments(self.plan, cluster, EQUAL, 0)
        _, costs = prices(self.distinct, cluster)
        steps = [op.step for op in self.plan.ops]
        last, at = steps[-1], max(range(len(ends)), key=lambda i: (ends[i], i))
        durations, issues = [0] * len(costs), [0] * len(costs)
        while at >= 0 and steps[at] == last:
            durations[self.number[at]] += 1
            host = issued[at] + int(costs[self.number[at]])
            before = max(self.after[at], key=lambda i: ends[i], default=-1)
            if before >= 0 and ends[before] >= host:
                at = before
                continue
            issues[self.number[at]] += 1
            at -= 1
            while at >= 0 and steps[at] == last and issued[at + 1] != ends[at]:
                issues[self.number[at]] += 1  # the host did not wait for this op's end
                at -= 1
        start = max((end for end, step in zip(ends, steps, strict=True) if step < last), default=0)
        seconds = (max(ends) - start) / NS_PER_S
        return Walk(seconds, tuple(durations), tuple(issues))


def walker(plan: Plan, cluster: Cluster) -> Walker:
    """Find the ops that cost the same whatever the constants, and the order that `cluster` lays on them."""
    numbers: dict[tuple[object, ...], int] = {}
    number, kept = [], list[Op]()
    for op in plan.ops:
        key = (op.kind, op.flops, op.memory_bytes, id(op.work), op.elements, op.dtype, op.group)
        if key not in numbers:
            numbers[key] = len(kept)
            kept.append(replace(op, id=len(kept), after=(), allocates=(), frees=(), blocks=False))
        number.append(numbers[key])
    distinct = replace(plan, ops=tuple(kept), persistent=())
    after = tuple(op.after for op in timed(plan, cluster).ops)
    return Walker(plan, distinct, tuple(number), after)


def length_s(walk: Walk, durations: Costs, issues: Costs) -> float:
    """Seconds of a walk's path at other prices."""
    return float(np.dot(walk.durations, durations) + np.dot(walk.issues, issues)) / NS_PER_S


def prices(distinct: Plan, cluster: Cluster) -> tuple[Costs, Costs]:
    """Nanoseconds that each distinct op takes, and that its host takes to issue it."""
    ops = timed(distinct, cluster).ops
    return (
        np.asarray([op.duration_ns for op in ops], dtype=np.int64),
        np.asarray([op.issue_ns for op in ops], dtype=np.int64),
    )
