"""Steps of a run: which are complete, which one stands for the run, how long it took whom."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from zerosim.trace import Flag, StepWindow, Trace, flagged


def complete_steps(trace: Trace) -> tuple[int, ...]:
    """The steps that all ranks with steps have, and in which every op ended; ascending."""
    by_rank: dict[int, set[int]] = {}
    for window in trace.meta.steps:
        by_rank.setdefault(window.rank, set()).add(window.step)
    if not by_rank:
        return ()
    unfinished = trace.spans.filter(flagged(Flag.UNFINISHED))["step"]
    return tuple(
        sorted(set.intersection(*by_rank.values()) - set(unfinished.drop_nulls().unique()))
    )


def last_complete_step(trace: Trace) -> int | None:
    """The step whose figures stand for the run; None if there is no complete one."""
    return max(complete_steps(trace), default=None)


def steady_step(trace: Trace) -> int | None:
    """The first step past the warm-up: from 2 on if there are several, else the first.

    A run that knows how long it warms up, but is shorter, stands by its last step.
    """
    complete = complete_steps(trace)
    known = trace.meta.steady_from
    late = [step for step in complete if step >= max(2, known or 0)]
    return next(iter(late), (min if known is None else max)(complete, default=None))


def slowest_window(trace: Trace, step: int | None) -> StepWindow | None:
    """The window of `step` on the rank that took longest (the lowest of equals)."""
    windows = [w for w in trace.meta.steps if w.step == step]
    return min(windows, key=lambda w: (w.start_ns - w.end_ns, w.rank), default=None)


def only_step(trace: Trace, step: int) -> Trace:
    """What a run did in one step: its spans, and its samples from where they stood at its begin on."""
    spans = trace.spans.filter(pl.col("step") == step)
    kept = tuple(w for w in trace.meta.steps if w.step == step)
    meta = replace(trace.meta, steps=kept)
    if spans.is_empty():
        return replace(trace, spans=spans, samples=trace.samples.clear(), meta=meta)
    begin, end = spans["start_ns"].min(), spans["end_ns"].max()
    time, each = pl.col("time_ns"), ("rank", "counter")
    before = (
        trace.samples.filter(time <= begin)
        .group_by(each, maintain_order=True)
        .last()
        .with_columns(time_ns=pl.lit(begin, dtype=pl.Int64()))
        .select(trace.samples.columns)
    )
    during = trace.samples.filter((time > begin) & (time <= end))
    return replace(trace, spans=spans, samples=pl.concat([before, during]), meta=meta)
