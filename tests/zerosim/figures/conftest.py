"""Hand-made runs for the figures' tests: two ranks, one layer, a step of 100 ms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zerosim.trace import Group, Meta, RankClass, StateBytes, StepWindow, Trace, make_trace

MS = 1_000_000

_OPS: tuple[tuple[Any, ...], ...] = (
    # name, kind, stream, unit, start, end, collective, bytes, sent, bucket
    ("AG0", "all_gather", "all_gather", "0", 0, 10, 1, 4_000, 2_000, None),
    ("F0", "forward", "compute", "0", 10, 30, None, None, None, None),
    ("B0", "backward", "compute", "0", 30, 70, None, None, None, None),
    ("fill0", "fill", "compute", "0", 70, 72, None, 4_000, None, 0),
    ("RS0", "reduce_scatter", "reduce_scatter", "0", 72, 90, 2, 4_000, 2_000, 0),
    ("OPT", "optimizer", "compute", None, 90, 100, None, None, None, None),
)
_NAMES = (
    "name",
    "kind",
    "stream",
    "unit",
    "start",
    "end",
    "collective",
    "nbytes",
    "wire_bytes",
    "bucket",
)


def _two_ranks(*, late: int = 0) -> Trace:
    """A step of 100 ms on two ranks; rank 1 arrives `late` ms after rank 0 at RS0."""
    rows = [dict(zip(_NAMES, op, strict=True)) | {"rank": rank} for rank in (0, 1) for op in _OPS]
    for row in rows:
        delay = late if row["rank"] == 1 and row["name"] == "RS0" else 0
        begin, end = int(row.pop("start")) + delay, int(row.pop("end"))
        moves = row["collective"] is not None
        row.update(
            issued_ns=begin * MS,
            start_ns=begin * MS,
            end_ns=end * MS,
            step=1,
            group="world" if moves else None,
            dtype="float32" if moves else None,
            elements=1_000 if moves else None,
        )
    meta = Meta(
        name="two",
        source="simulated",
        world_size=2,
        groups=(Group("world", 2, (0, 1)),),
        steps=tuple(StepWindow(r, 1, 0, 100 * MS) for r in (0, 1)),
        states=(StateBytes(0, 2_000, 2_000, 4_000), StateBytes(1, 2_000, 2_000, 8_000)),
    )
    times = (0, 10 * MS, 30 * MS, 70 * MS)
    samples = [
        {"time_ns": t, "rank": 0, "counter": counter, "value": value}
        for counter, values in (
            ("memory.parameters", (2_000, 2_000, 2_000, 2_000)),
            ("memory.gathered", (4_000, 4_000, 4_000, 0)),
            ("memory.activations", (0, 1_000, 1_000, 0)),
            ("memory.in_use", (6_000, 7_000, 7_000, 2_000)),
        )
        for t, value in zip(times, values, strict=True)
    ]
    return make_trace(_columns(rows), meta, _columns(samples))


def _folded(n_ranks: int) -> Trace:
    """The same step as a big run keeps it: rows of rank 0 alone, which stands for all."""
    alone = _two_ranks()
    meta = replace(
        alone.meta,
        world_size=n_ranks,
        classes=(RankClass(0, ((0, n_ranks - 1),)),),
        states=alone.meta.states[:1],
        steps=alone.meta.steps[:1],
    )
    return Trace(alone.spans.filter(alone.spans["rank"] == 0), alone.samples, meta)


def _silent() -> Trace:
    """A run of one span that says nothing of memory, states, buckets or steps."""
    spans = {
        "rank": [0],
        "kind": ["host"],
        "stream": ["host"],
        "name": ["python"],
        "start_ns": [5],
        "end_ns": [9],
    }
    return make_trace(spans, Meta(name="silent", source="imported", world_size=None))


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.fixture
def two() -> Trace:
    """Both ranks arrive together."""
    return _two_ranks()


@pytest.fixture
def skewed() -> Trace:
    """Rank 1 comes 5 ms late to RS0."""
    return _two_ranks(late=5)


@pytest.fixture
def thousand() -> Trace:
    """1,000 ranks that do what rank 0 does."""
    return _folded(1_000)


@pytest.fixture
def silent() -> Trace:
    """One span, and nothing else known."""
    return _silent()
