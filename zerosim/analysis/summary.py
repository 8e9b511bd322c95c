"""A run in figures: the JSON that `zerosim simulate` and `zerosim show` print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import polars as pl

from zerosim.analysis.busy import UNKNOWN, Busy, busy_by_step, busy_whole
from zerosim.analysis.order import issue_order
from zerosim.analysis.report import COUNTS
from zerosim.analysis.skew import measure_skew
from zerosim.analysis.steps import last_complete_step, slowest_window
from zerosim.analysis.tally import tally_collectives
from zerosim.kinds import COMMUNICATION
from zerosim.trace import ModelFacts, RankClass, StepWindow, Trace, of_kind
from zerosim.units import NS_PER_S

MAX_RANKS: Final = 1024
"""Up to so many ranks each gets an entry; above, each class gets one, with its `members`."""

_Shown = tuple[int, int, tuple[tuple[int, int], ...] | None]


def summarize(trace: Trace) -> dict[str, Any]:
    """The figures of a run, ready for JSON: ns, bytes, null for unknown.

    Totals are those of the last complete step, of the rank that took longest in it.
    """
    step = last_complete_step(trace)
    window = slowest_window(trace, step)
    steps = busy_by_step(trace)
    busy = steps.get((window.rank, window.step), UNKNOWN) if window else UNKNOWN
    entries = _entries(trace, steps)
    return {
        "name": trace.meta.name,
        "source": trace.meta.source,
        "world_size": trace.meta.world_size,
        **_totals(window, busy, trace.meta.model),
        "peak_bytes": max((e["peak_bytes"] for e in entries if e["peak_bytes"]), default=None),
        "peak_reserved_bytes": peak_bytes(trace, "memory.reserved"),
        "bytes_sent": bytes_sent(trace, step),
        "order": issue_order(trace),
        "engine": trace.meta.engine,
        "ranks": _expanded(trace, entries),
        "skew": _skew(trace, entries),
        "quality": {
            **{name: getattr(trace.meta.quality, name) for name in COUNTS},
            "warnings": list(trace.meta.quality.warnings),
        },
    }


def busiest_whole(summary: Mapping[str, Any]) -> tuple[int, Busy] | None:
    """Of a run without a complete step: its busiest rank, and what that did in all of the run.

    `summary` is what `summarize` made. None for a run with a step, and where nothing is timed.
    """
    if summary["step_ns"] is not None:
        return None
    timed = [(rank["rank"], Busy(**rank["whole"])) for rank in summary["ranks"]]
    timed = [(rank, busy) for rank, busy in timed if busy.compute_ns or busy.comm_ns]
    busy_ns = (((busy.compute_ns or 0) + (busy.exposed_ns or 0), -rank) for rank, busy in timed)
    return max(zip(busy_ns, timed, strict=True), default=(0, None))[1]


def _totals(window: StepWindow | None, busy: Busy, model: ModelFacts | None) -> dict[str, Any]:
    step_ns = window.end_ns - window.start_ns if window else None
    comm, exposed = busy.comm_ns, busy.exposed_ns
    overlap = 1 - exposed / comm if comm and exposed is not None else None
    tokens = model.tokens if model else None
    flops = (model.flops, model.flops_causal) if model else (None, None)
    peak = model.peak_flops if model else None
    return {
        "step_ns": step_ns,
        "compute_ns": busy.compute_ns,
        "comm_ns": comm,
        "exposed_ns": exposed,
        "overlap": overlap,
        "tokens_per_s_per_rank": tokens * NS_PER_S / step_ns if tokens and step_ns else None,
        "mfu": _mfu(flops[0], peak, step_ns),
        "mfu_causal": _mfu(flops[1], peak, step_ns),
    }


def _mfu(flops: int | None, peak_flops: float | None, step_ns: int | None) -> float | None:
    if flops is None or not peak_flops or not step_ns:
        return None
    return flops / (peak_flops * step_ns / NS_PER_S)


def _entries(trace: Trace, steps: dict[tuple[int, int], Busy]) -> list[dict[str, Any]]:
    whole, tallies = busy_whole(trace), tally_collectives(trace)
    peaks = _peaks(trace, "memory.allocated")
    states = {s.rank: s for s in trace.meta.states}
    windows: dict[int, list[StepWindow]] = {rank: [] for rank in trace.ranks}
    for window in trace.meta.steps:
        windows.setdefault(window.rank, []).append(window)
    return [
        {
            "rank": rank,
            "steps": [
                {"step": w.step, "start_ns": w.start_ns, "step_ns": w.end_ns - w.start_ns}
                for w in mine
            ],
            "whole": asdict(whole.get(rank, UNKNOWN)),
            "by_step": [_step(w.step, steps[rank, w.step]) for w in mine],
            "collectives": [asdict(t) for t in tallies.get(rank, ())],
            "peak_bytes": peaks.get(rank),
            "states_bytes": {
                kind: getattr(states.get(rank), kind, None)
                for kind in ("parameters", "gradients", "optimizer")
            }
            if rank in states
            else None,
        }
        for rank, mine in sorted(windows.items())
    ]


def _step(step: int, busy: Busy) -> dict[str, Any]:
    return {
        "step": step,
        "compute_ns": busy.compute_ns,
        "comm_ns": busy.comm_ns,
        "exposed_ns": busy.exposed_ns,
    }


def _peaks(trace: Trace, counter: str) -> dict[int, int]:
    rows = trace.samples.filter(pl.col("counter").cast(pl.String) == counter)
    return dict(rows.group_by("rank").agg(pl.col("value").max()).iter_rows())


def peak_bytes(trace: Trace, counter: str = "memory.allocated") -> int | None:
    """The most of a memory counter that any rank reached in the run; None if nobody counted."""
    return max(_peaks(trace, counter).values(), default=None)


def bytes_sent(trace: Trace, step: int | None) -> int | None:
    """Wire bytes of the lowest rank in `step`; None if any of its transfers is unknown."""
    if step is None or not trace.ranks:
        return None
    sent = trace.spans.filter(
        (pl.col("rank") == trace.ranks[0]) & (pl.col("step") == step) & of_kind(COMMUNICATION)
    )["wire_bytes"]
    return None if sent.null_count() else int(sent.sum())


def _members(trace: Trace) -> dict[int, RankClass]:
    """The class of each rank with rows, if some ranks have none of their own; else nothing."""
    present = set(trace.ranks) | {w.rank for w in trace.meta.steps}
    classes = {c.representative: c for c in trace.meta.classes if c.representative in present}
    return classes if any(set(c.ranks) - present for c in classes.values()) else {}


def _expanded(trace: Trace, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = _shown(trace, [e["rank"] for e in entries])
    by_rank = {e["rank"]: e for e in entries}
    return [
        {**by_rank[source], "rank": rank}
        if members is None
        else {**by_rank[source], "members": [list(m) for m in members]}
        for rank, source, members in shown
    ]


def _shown(trace: Trace, sources: list[int]) -> list[_Shown]:
    """The ranks to show: with whose figures, and for which members if there are too many."""
    classes = _members(trace)
    if sum(classes[r].size if r in classes else 1 for r in sources) > MAX_RANKS:
        return [(r, r, classes[r].members if r in classes else None) for r in sources]
    every = [(r, source, None) for source in sources for r in _standing(classes, source)]
    return sorted(every)


def _standing(classes: dict[int, RankClass], rank: int) -> tuple[int, ...]:
    return classes[rank].ranks if rank in classes else (rank,)


def _skew(trace: Trace, entries: list[dict[str, Any]]) -> dict[str, Any]:
    skew = measure_skew(trace)
    sources = [source for _, source, _ in _shown(trace, [e["rank"] for e in entries])]
    place = {rank: i for i, rank in enumerate(skew.ranks)}

    def listed(values: tuple[int, ...] | None) -> list[int | None] | None:
        if values is None:
            return None
        return [values[place[r]] if r in place else None for r in sources]

    return {
        "aligned": skew.aligned,
        "n": skew.n,
        "wait_ns_per_rank": listed(skew.wait_ns_per_rank),
        "arrived_last_count": listed(skew.arrived_last_count),
        "straggler": skew.straggler,
    }
