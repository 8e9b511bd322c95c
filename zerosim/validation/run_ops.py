"""What real ranks took for each op of a run, beside the plan that they carried out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from zerosim.analysis.steps import complete_steps
from zerosim.errors import MeasurementError, ZerosimError
from zerosim.kinds import COMMUNICATION
from zerosim.plan import Op, Plan
from zerosim.scenario import Scenario, plan_of
from zerosim.trace import Trace

_COLUMNS: Final = ("name", "step", "issued_ns", "start_ns", "end_ns", "collective")


@dataclass(frozen=True, slots=True)
class Done:
    """One op as one rank did it. `next_ns`: when its host issued the next one (None: it was the last)."""

    op: Op
    step: int
    issued_ns: int
    start_ns: int
    end_ns: int
    collective: int | None
    next_ns: int | None


def scenario_of(trace: Trace) -> Scenario:
    """The scenario of a measured run. Raises MeasurementError if it has none, or was not measured."""
    if trace.meta.source != "measured" or trace.meta.scenario is None:
        raise MeasurementError(
            f"run '{trace.meta.name}' was not made by real ranks of a scenario: give runs of "
            "zerosim trace or zerosim lab"
        )
    try:
        return Scenario.from_dict(trace.meta.scenario)
    except ZerosimError as error:
        raise MeasurementError(f"run '{trace.meta.name}' has no valid scenario: {error}") from None


def done_by_rank(trace: Trace) -> tuple[tuple[Done, ...], ...]:
    """All ops of each rank in host issue order, those of the first step left out where there are more.

    Raises MeasurementError if the run is not what its plan says, or has no complete step.
    """
    plan = plan_of(scenario_of(trace))
    steps = complete_steps(trace)
    steady = [step for step in steps if step > 1] or list(steps)
    if not steady:
        raise MeasurementError(f"run '{trace.meta.name}' has no complete step: run it again")
    ranks = trace.spans["rank"].unique().sort()
    return tuple(
        tuple(d for d in _of_rank(trace, plan, int(rank)) if d.step in steady) for rank in ranks
    )


def _of_rank(trace: Trace, plan: Plan, rank: int) -> Iterator[Done]:
    rows = trace.spans.filter(pl.col("rank") == rank).select(_COLUMNS).rows()
    if len(rows) != len(plan.ops):
        raise MeasurementError(
            f"run '{trace.meta.name}' has {len(rows)} ops on rank {rank}, its plan {len(plan.ops)}: "
            "give a whole run of this version"
        )
    following = [row[2] for row in rows[1:]] + [None]
    for op, (name, step, issued, start, end, collective), next_ns in zip(
        plan.ops, rows, following, strict=True
    ):
        if op.name != name:
            raise MeasurementError(
                f"run '{trace.meta.name}' has '{name}' where its plan has '{op.name}': "
                "give a run of this version"
            )
        yield Done(op, step, issued, start, end, collective, next_ns)


def is_collective(done: Done) -> bool:
    """Whether it moves bytes between ranks."""
    return done.op.kind in COMMUNICATION
