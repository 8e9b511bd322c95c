"""From times to a Trace: spans in issue order, memory in host and device order, bucket fills, links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from zerosim.collectives import wire_bytes
from zerosim.engine.folding import Folded
from zerosim.engine.program import Program, Times
from zerosim.kinds import COMMUNICATION, MEMORY_KINDS, Kind
from zerosim.plan import Plan
from zerosim.trace import (
    Group,
    Meta,
    RankClass,
    StateBytes,
    StepWindow,
    Trace,
    expand,
    make_trace,
)
from zerosim.units import NS_PER_S

MAX_ROWS: Final = 200_000
"""Up to so many spans every rank gets rows of its own; above, one rank of each class does."""

_COUNTER: Final = {kind: f"memory.{kind}" for kind in MEMORY_KINDS}
_Change = tuple[int, int, str, int]  # time, place within a time, counter, how much more


@dataclass(frozen=True, slots=True)
class Recording:
    """What the recorder is given beside plan and times: name, engine, backend, header fields."""

    name: str
    engine: str
    backend: str
    meta: dict[str, Any]


def record(
    plan: Plan, program: Program, folded: Folded, times: Times, recording: Recording
) -> Trace:
    """The trace of a simulated run; rows of all ranks if they are few, else of representatives."""
    classes = _classes(folded)
    columns = _columns(plan, recording.backend)
    spans = pl.concat(
        [_spans(columns, times, c, cls.representative) for c, cls in enumerate(classes)]
    )
    samples = pl.concat(
        [_samples(plan, program, times, c, cls.representative) for c, cls in enumerate(classes)]
    )
    small = plan.world_size * len(plan.ops) <= MAX_ROWS
    shown = classes if not small else _singles(classes)
    meta = Meta(
        name=recording.name,
        source="simulated",
        world_size=plan.world_size,
        engine=recording.engine,
        groups=tuple(Group(a.name, a.size, _world(plan, a.size)) for a in plan.axes),
        steps=_steps(plan, times, classes, shown),
        classes=classes,
        states=tuple(_states(plan, cls.representative) for cls in shown),
        **recording.meta,
    )
    trace = make_trace(spans, meta, samples)
    return expand(trace) if small else trace


def _classes(folded: Folded) -> tuple[RankClass, ...]:
    order = np.argsort(folded.class_of, kind="stable")
    bounds = np.searchsorted(folded.class_of[order], np.arange(folded.n_classes + 1))
    return tuple(
        RankClass(first, _ranges(order[bounds[c] : bounds[c + 1]]))
        for c, first in enumerate(folded.representatives)
    )


def _ranges(ranks: np.ndarray[Any, Any]) -> tuple[tuple[int, int], ...]:
    cuts = np.flatnonzero(np.diff(ranks) != 1) + 1
    return tuple((int(run[0]), int(run[-1])) for run in np.split(ranks, cuts))


def _singles(classes: Sequence[RankClass]) -> tuple[RankClass, ...]:
    return tuple(RankClass(r, ((r, r),)) for r in sorted(r for c in classes for r in c.ranks))


def _world(plan: Plan, size: int) -> tuple[int, ...] | None:
    return tuple(range(size)) if size == plan.world_size and size <= 1024 else None  # noqa: PLR2004 - a header's length


def _columns(plan: Plan, backend: str) -> pl.DataFrame:
    sizes = {axis.name: axis.size for axis in plan.axes}
    ops = plan.ops
    return pl.DataFrame(
        {
            "stream": [op.stream for op in ops],
            "kind": [op.kind.value for op in ops],
            "name": [op.name for op in ops],
            "unit": [op.unit for op in ops],
            "step": [op.step for op in ops],
            "micro_batch": [op.micro_batch for op in ops],
            "collective": [op.id if op.kind in COMMUNICATION else None for op in ops],
            "group": [op.group for op in ops],
            "elements": [op.elements for op in ops],
            "nbytes": [op.nbytes for op in ops],
            "wire_bytes": [
                None
                if op.group is None or op.nbytes is None
                else wire_bytes(op.kind, op.nbytes, sizes[op.group], backend)
                for op in ops
            ],
            "dtype": [op.dtype for op in ops],
            "bucket": [op.bucket for op in ops],
        },
        schema_overrides={
            "unit": pl.String,
            "collective": pl.Int64,
            "group": pl.String,
            "elements": pl.Int64,
            "nbytes": pl.Int64,
            "wire_bytes": pl.Int64,
            "dtype": pl.String,
            "bucket": pl.Int32,
        },
    )


def _spans(columns: pl.DataFrame, times: Times, c: int, rank: int) -> pl.DataFrame:
    return columns.with_columns(
        rank=pl.lit(rank, dtype=pl.Int32),
        issued_ns=pl.Series(times.issued[:, c]),
        start_ns=pl.Series(times.start[:, c]),
        end_ns=pl.Series(times.end[:, c]),
    )


def _steps(
    plan: Plan, times: Times, classes: Sequence[RankClass], shown: Sequence[RankClass]
) -> tuple[StepWindow, ...]:
    of_op = np.asarray([op.step for op in plan.ops])
    windows: dict[int, list[tuple[int, int, int]]] = {}
    for c, cls in enumerate(classes):
        windows[cls.representative] = [
            (
                int(step),
                int(times.issued[of_op == step, c].min()),
                int(times.end[of_op == step, c].max()),
            )
            for step in np.unique(of_op)
        ]
    source = {
        r: cls.representative
        for cls in classes
        for r in (cls.ranks if len(shown) > len(classes) else (cls.representative,))
    }
    return tuple(
        StepWindow(cls.representative, step, start, end)
        for cls in shown
        for step, start, end in windows[source[cls.representative]]
    )


def _states(plan: Plan, rank: int) -> StateBytes:
    held = dict.fromkeys(("parameters", "gradients", "optimizer"), 0)
    for allocation in plan.persistent:
        held[allocation.kind] = held.get(allocation.kind, 0) + allocation.nbytes
    # Gradients come and go: a rank owns what the update consumes.
    live: dict[str, int] = {}
    for op in plan.ops:
        live.update({a.key: a.nbytes for a in op.allocates if a.kind == "gradients"})
        if op.kind is Kind.OPTIMIZER:
            held["gradients"] = sum(live.get(key, 0) for key in op.frees)
            break
    return StateBytes(rank, held["parameters"], held["gradients"], held["optimizer"])


def _samples(plan: Plan, program: Program, times: Times, c: int, rank: int) -> pl.DataFrame:
    changes = [
        *_memory(plan, program, times, c),
        *_fills(plan, times, c),
        *_links(plan, program, times, c),
    ]
    numbers: dict[str, int] = {}
    named = np.asarray([numbers.setdefault(name, len(numbers)) for _, _, name, _ in changes])
    when, place, change = (np.asarray([row[i] for row in changes], np.int64) for i in (0, 1, 3))
    order = np.lexsort((place, when, named))
    when, named, value = when[order], named[order], change[order].cumsum()
    # A counter's values are sums of its own changes: take off what the counters before it added.
    first = np.flatnonzero(np.diff(named, prepend=-1))
    value -= np.repeat(value[first] - change[order][first], np.diff(first, append=len(named)))
    order = np.argsort(when, kind="stable")
    names = np.asarray(list(numbers), dtype=object)
    return pl.DataFrame(
        {
            "time_ns": when[order],
            "rank": np.full(len(order), rank, dtype=np.int32),
            "counter": pl.Series(names[named[order]].tolist(), dtype=pl.String),
            "value": value[order],
        }
    )


def _memory(plan: Plan, program: Program, times: Times, c: int) -> Iterable[_Change]:
    """Allocated in host order, op by op; by kind in device order, frees before allocations."""
    held: dict[str, tuple[int, str, int]] = {}
    for a in plan.persistent:
        for counter in (_COUNTER[a.kind], "memory.allocated", "memory.in_use"):
            yield 0, -1, counter, a.nbytes
    issued, start, end = (
        column[:, c].tolist() for column in (times.issued, times.start, times.end)
    )
    for op in plan.ops:
        if not op.allocates and not op.frees:
            continue
        now, done = issued[op.id], issued[op.id] + program.ops[op.id].issue_ns
        for a in op.allocates:
            held[a.key] = (a.nbytes, _COUNTER[a.kind], start[op.id])
            yield now, 2 * op.id, "memory.allocated", a.nbytes
            yield start[op.id], 1, _COUNTER[a.kind], a.nbytes
            yield start[op.id], 1, "memory.in_use", a.nbytes
        for key in op.frees:
            nbytes, counter, since = held.pop(key)
            place = 0 if since < end[op.id] else 2  # what an op of no time takes, it then drops
            yield done, 2 * op.id + 1, "memory.allocated", -nbytes
            yield end[op.id], place, counter, -nbytes
            yield end[op.id], place, "memory.in_use", -nbytes


def _fills(plan: Plan, times: Times, c: int) -> Iterable[_Change]:
    """Bytes in buckets that are not under way yet."""
    filled: dict[int, int] = {}
    for op in plan.ops:
        if op.kind is Kind.FILL and op.bucket is not None and op.nbytes is not None:
            filled[op.bucket] = filled.get(op.bucket, 0) + op.nbytes
            yield int(times.end[op.id, c]), 0, "bucket.fill", op.nbytes
        elif op.kind in COMMUNICATION and op.bucket in filled and op.kind is not Kind.ALL_GATHER:
            yield int(times.start[op.id, c]), 1, "bucket.fill", -filled.pop(op.bucket)


def _links(plan: Plan, program: Program, times: Times, c: int) -> Iterable[_Change]:
    """Bytes a second on each link, as the mean over each transfer."""
    for op in plan.ops:
        moved = program.ops[op.id].transfer
        if moved is None:
            continue
        end = int(times.end[op.id, c])
        start = min(end, end - program.ops[op.id].duration_ns + moved.latency_ns)
        begin = max(start, int(times.start[op.id, c]))
        for link, nbytes in moved.loads:
            if end > begin:
                rate = nbytes * NS_PER_S // (end - begin)
                yield begin, 1, f"link.{link}", rate
                yield end, 0, f"link.{link}", -rate
