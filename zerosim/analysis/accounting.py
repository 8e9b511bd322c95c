"""Where the time of a step went: every nanosecond of it on exactly one account."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from zerosim.analysis.intervals import Intervals, clip, gaps, join, measure
from zerosim.analysis.skew import last_arrivals
from zerosim.analysis.steps import last_complete_step, slowest_window
from zerosim.kinds import COMMUNICATION, COMPUTE, MEMORY, Kind
from zerosim.trace import Flag, StepWindow, Trace, flagged, of_kind

_COMPUTE: Final = tuple(k for k in (*COMPUTE, *MEMORY) if k is not Kind.OPTIMIZER)


@dataclass(frozen=True, slots=True)
class Accounting:
    """A step of one rank, in ns; the accounts sum to `step_ns`.

    A moment goes on the first account that fits: `compute` (kernels, copies and memory moves,
    without the optimizer), `optimizer`, `exposed` (a transfer that nothing hides, by kind), `wait`
    (in a collective, for its last member), `launch` (the device is idle since the host has not yet
    issued what runs next), `idle` (the rest: issued, but held up by something else).
    """

    rank: int
    step: int
    step_ns: int
    compute_ns: int
    optimizer_ns: int
    exposed_ns: tuple[tuple[str, int], ...]
    wait_ns: int
    launch_ns: int
    idle_ns: int


def account(trace: Trace) -> Accounting | None:
    """The accounts of the slowest rank's last complete step; None if no step is complete."""
    window = slowest_window(trace, last_complete_step(trace))
    return None if window is None else account_window(trace, window)


def account_window(trace: Trace, window: StepWindow) -> Accounting:
    """The accounts of one rank and step, of whatever ran in the window, whoever launched it."""
    spans = last_arrivals(trace.spans).filter(
        (pl.col("rank") == window.rank)
        & ~flagged(Flag.UNTIMED)
        & (pl.col("end_ns") > window.start_ns)
    )
    low, high = window.start_ns, window.end_ns
    covered, total, accounts = join(), 0, {}
    for name, part in _layers(spans):
        covered = join(covered, clip(part, low, high))
        before, total = total, measure(covered)
        accounts[name] = total - before
    launch = measure(_launching(spans, gaps(covered, low, high)))
    communication = tuple((k.value, ns) for k in COMMUNICATION if (ns := accounts[k]))
    return Accounting(
        rank=window.rank,
        step=window.step,
        step_ns=high - low,
        compute_ns=accounts["compute"],
        optimizer_ns=accounts["optimizer"],
        exposed_ns=communication,
        wait_ns=accounts["wait"],
        launch_ns=launch,
        idle_ns=high - low - total - launch,
    )


def _layers(spans: pl.DataFrame) -> Iterator[tuple[str, Intervals]]:
    yield "compute", _of(spans, _COMPUTE, "start_ns", "end_ns")
    yield "optimizer", _of(spans, (Kind.OPTIMIZER,), "start_ns", "end_ns")
    for kind in COMMUNICATION:
        yield kind, _of(spans, (kind,), "arrived_ns", "end_ns")
    yield "wait", _of(spans, COMMUNICATION, "start_ns", "arrived_ns")


def _of(spans: pl.DataFrame, kinds: tuple[Kind, ...], start: str, end: str) -> Intervals:
    rows = spans.filter(of_kind(kinds))
    return Intervals(rows[start].to_numpy(), rows[end].to_numpy())


def _launching(spans: pl.DataFrame, idle: Intervals) -> Intervals:
    """The part of each idle stretch before the host issued the op that ends it."""
    work = (*_COMPUTE, Kind.OPTIMIZER, *COMMUNICATION)
    rows = spans.filter(of_kind(work) & pl.col("issued_ns").is_not_null()).sort(
        "start_ns", "issued_ns"
    )
    starts, issued = rows["start_ns"].to_numpy(), rows["issued_ns"].to_numpy()
    following = np.searchsorted(starts, idle.ends, side="left")
    known = following < len(starts)
    late = np.minimum(issued[following[known]], idle.ends[known])
    return Intervals(idle.starts[known], np.maximum(late, idle.starts[known]))
