"""When gradients are reduced: within the backward, where computing can hide it, or after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from zerosim.analysis.steps import last_complete_step
from zerosim.kinds import Kind
from zerosim.trace import Trace, of_kind

_REDUCING: Final = (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER, Kind.REDUCE)


@dataclass(frozen=True, slots=True)
class Reductions:
    """Those of the last complete step, single numbers (norms, flags) left out.

    `n_late`: how many began when the last backward op had ended.
    """

    n: int
    n_late: int


def reductions(trace: Trace) -> Reductions:
    """The reductions of the lowest rank."""
    step = last_complete_step(trace)
    if step is None or not trace.ranks:
        return Reductions(0, 0)
    rows = trace.spans.filter((pl.col("rank") == trace.ranks[0]) & (pl.col("step") == step))
    sent = rows.filter(of_kind(_REDUCING) & (pl.col("elements").fill_null(2) > 1))["start_ns"]
    backward = rows.filter(of_kind((Kind.BACKWARD,)))["end_ns"].max()
    return Reductions(len(sent), 0 if backward is None else int((sent >= backward).sum()))
