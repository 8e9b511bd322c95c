"""A run once more, on another machine: what it computed takes what it took, what it sent what it would."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl

from zerosim.cluster import Cluster, Host
from zerosim.engine import Variation, simulate
from zerosim.errors import InputError
from zerosim.replay.program import Replay, replay_of
from zerosim.trace import Trace


def retime(
    trace: Trace, replay: Replay, cluster: Cluster, *, speed: float = 1.0, priced: bool = True
) -> Trace:
    """The run as it would be on `cluster`, whose ranks compute `speed` times as fast as its own did.

    Collectives take what the cluster's model says and wait for whoever comes late; without `priced`
    they take what they took. Computing and the host's gaps take what they took.
    Raises InputError for a speed that is none, PlanError and ScenarioError as `simulate` does.
    """
    if not (math.isfinite(speed) and speed > 0):
        raise InputError(f"speed is {speed}: give a number above 0")
    durations = tuple(
        (op.id, tuple(round(ns / speed) for ns in took) if op.group is None else took)
        for op, took in zip(replay.plan.ops, replay.durations, strict=True)
        if not priced or op.id not in replay.priced
    )
    simulated = simulate(
        replay.plan,
        replace(
            cluster,
            world_size=replay.plan.world_size,
            # The host's own time lies in the gaps that were measured.
            host=Host(0.0, 0.0, computes=replay.blocking),
        ),
        Variation(durations=durations),
        name=replay.plan.name,
        model=trace.meta.model if speed == 1.0 else None,
    )
    engine = f"{simulated.meta.engine} of {trace.meta.engine or 'a run'}"
    meta = replace(simulated.meta, engine=engine)
    return replace(simulated, spans=_unknown_again(simulated.spans, replay), meta=meta)


def _unknown_again(spans: pl.DataFrame, replay: Replay) -> pl.DataFrame:
    """What the run did not know of a collective, nobody knows now."""
    unsized = [op.group is not None and op.id not in replay.priced for op in replay.plan.ops]
    known = ~pl.Series(unsized * (spans.height // len(unsized)))
    columns = ("elements", "nbytes", "wire_bytes", "dtype")
    return spans.with_columns(pl.when(known).then(pl.col(name)).alias(name) for name in columns)


__all__ = ["Replay", "replay_of", "retime"]
