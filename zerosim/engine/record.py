"""From times to a Trace: spans in issue order, samples, and what is true of the run as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from zerosim.collectives import wire_bytes
from zerosim.engine.folding import Folded
from zerosim.engine.program import Program, Times
from zerosim.engine.samples import sampled
from zerosim.memory.held import allocations, gradients_of_update
from zerosim.plan import Plan
from zerosim.trace import (
    SPANS,
    Group,
    Meta,
    RankClass,
    StateBytes,
    StepWindow,
    Trace,
    expand,
    make_trace,
)

MAX_ROWS: Final = 200_000
"""Up to so many spans every rank gets rows of its own; above, one rank of each class does."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What the recorder is given beside plan and times: name, engine, backend, header fields.

    `caching`: whether memory is reserved by a caching allocator, which is followed then.
    """

    name: str
    engine: str
    backend: str
    meta: dict[str, Any]
    caching: bool = False


def record(
    plan: Plan, program: Program, folded: Folded, times: Times, recording: Recording
) -> Trace:
    """The trace of a simulated run; rows of all ranks if they are few, else of representatives."""
    classes = _classes(folded)
    columns = _columns(plan, recording.backend)
    spans = pl.concat(
        [_spans(columns, times, c, cls.representative) for c, cls in enumerate(classes)]
    )
    held = allocations(plan)
    samples = sampled(plan, held, program, folded, times, caching=recording.caching)
    small = plan.world_size * len(plan.ops) <= MAX_ROWS
    shown = classes if not small else _singles(classes)
    shown_ranks = tuple(cls.representative for cls in shown)
    gradients = gradients_of_update(plan, held, shown_ranks)
    meta = Meta(
        name=recording.name,
        source="simulated",
        world_size=plan.world_size,
        engine=recording.engine,
        groups=tuple(Group(a.name, a.size, _world(plan, a.size)) for a in plan.axes),
        steps=_steps(plan, times, classes, shown),
        classes=classes,
        states=tuple(
            _states(plan, rank, own) for rank, own in zip(shown_ranks, gradients, strict=True)
        ),
        steady_from=plan.steady_from,
        **recording.meta,
    )
    trace = make_trace(spans, meta, samples)
    return _told_apart(expand(trace), plan) if small else trace


def _told_apart(trace: Trace, plan: Plan) -> Trace:
    """Groups of one shape carry out an op apart from each other: each is a collective of its own."""
    collective = pl.col("collective")
    for axis in plan.axes:
        if axis.size < plan.world_size:
            block = axis.size * axis.stride
            group = pl.col("rank") // block * axis.stride + pl.col("rank") % axis.stride
            of_axis = pl.col("group").cast(pl.String) == axis.name
            apart = collective + group.cast(pl.Int64) * len(plan.ops)
            collective = pl.when(of_axis).then(apart).otherwise(collective)
    return replace(trace, spans=trace.spans.with_columns(collective.alias("collective")))


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


def _columns(plan: Plan, backend: str) -> dict[str, pl.Series]:
    """The columns of the spans that all ranks share."""
    ops = plan.ops
    nbytes = [op.nbytes for op in ops]
    columns: dict[str, list[Any]] = {
        "stream": [op.stream for op in ops],
        "kind": [op.kind for op in ops],
        "name": [op.name for op in ops],
        "unit": [op.unit for op in ops],
        "step": [op.step for op in ops],
        "micro_batch": [op.micro_batch for op in ops],
        "collective": [None if op.group is None else op.id for op in ops],
        "group": [op.group for op in ops],
        "elements": [op.elements for op in ops],
        "nbytes": nbytes,
        "wire_bytes": _sent(plan, nbytes, backend),
        "dtype": [op.dtype for op in ops],
        "bucket": [op.bucket for op in ops],
        "flags": [0] * len(ops),
    }
    return {name: pl.Series(name, column, SPANS[name]) for name, column in columns.items()}


def _sent(plan: Plan, nbytes: Sequence[int | None], backend: str) -> list[int | None]:
    """Bytes that each op puts on the wire; few collectives differ, so each kind is computed once."""
    sizes = {axis.name: axis.size for axis in plan.axes}
    known: dict[tuple[str, int, str], int] = {}
    sent: list[int | None] = []
    for op, size in zip(plan.ops, nbytes, strict=True):
        if op.group is None or size is None:
            sent.append(None)
            continue
        key = (op.kind, size, op.group)
        if key not in known:
            known[key] = wire_bytes(op.kind, size, sizes[op.group], backend)
        sent.append(known[key])
    return sent


def _spans(columns: dict[str, pl.Series], times: Times, c: int, rank: int) -> pl.DataFrame:
    own = {
        "rank": pl.Series("rank", np.full(len(times.start), rank, dtype=np.int32)),
        "issued_ns": pl.Series("issued_ns", times.issued[:, c]),
        "start_ns": pl.Series("start_ns", times.start[:, c]),
        "end_ns": pl.Series("end_ns", times.end[:, c]),
    }
    every = columns | own
    return pl.DataFrame([every[name] for name in SPANS])


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


def _states(plan: Plan, rank: int, gradients: int) -> StateBytes:
    held = dict.fromkeys(("parameters", "optimizer"), 0)
    for allocation in plan.persistent:
        held[allocation.kind] = held.get(allocation.kind, 0) + allocation.at(rank)
    return StateBytes(rank, held["parameters"], gradients, held["optimizer"])
