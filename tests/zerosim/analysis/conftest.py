"""Small hand-made runs whose figures can be checked in the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from zerosim.trace import Group, Meta, StepWindow, Trace, make_trace

Row = dict[str, Any]
Maker = Callable[..., Trace]


def run_of(rows: list[Row], *, samples: list[Row] | None = None, **meta: Any) -> Trace:
    """A trace of `rows`: `kind`, `start`, `end` in ns, and any column; one rank 0, step 1 if unsaid."""
    columns = [
        {
            "rank": 0,
            "stream": "compute",
            "name": row["kind"],
            "step": 1,
            "flags": 0,
            "issued_ns": row["start"],
            **{k: v for k, v in row.items() if k not in ("start", "end")},
            "start_ns": row["start"],
            "end_ns": row["end"],
        }
        for row in rows
    ]
    ranks = sorted({c["rank"] for c in columns})
    steps = meta.pop("steps", None)
    if steps is None:
        steps = tuple(StepWindow(rank, 1, 0, 100) for rank in ranks)
    facts = {"name": "run", "source": "simulated", "world_size": len(ranks), "steps": steps, **meta}
    facts.setdefault("groups", (Group("world", 2, (0, 1)),))
    table: Any = pl.DataFrame(columns, infer_schema_length=None) if columns else {}
    return make_trace(table, Meta(**facts), pl.DataFrame(samples) if samples else None)


@pytest.fixture
def make_run() -> Maker:
    """Makes a trace of a few rows."""
    return run_of


@pytest.fixture
def one_rank() -> Trace:
    """One step 0-100: gather 0-20, forward 20-50, gather 30-60, backward 60-80, reduce 80-90, OPT 90-95.

    Communication is 0-20, 30-60, 80-90 (60), computation 20-50, 60-80, 90-95 (55); 30-50 overlap.
    """
    return run_of(
        [
            {"kind": "all_gather", "name": "AG0", "unit": "0", "start": 0, "end": 20, **COLLECTIVE},
            {"kind": "forward", "name": "F0", "unit": "0", "start": 20, "end": 50},
            {
                "kind": "all_gather",
                "name": "AG1",
                "unit": "1",
                "start": 30,
                "end": 60,
                **COLLECTIVE,
            },
            {"kind": "backward", "name": "B0", "unit": "0", "start": 60, "end": 80},
            {
                "kind": "reduce_scatter",
                "name": "RS0",
                "unit": "0",
                "start": 80,
                "end": 90,
                **COLLECTIVE,
            },
            {"kind": "optimizer", "name": "OPT", "start": 90, "end": 95},
        ],
        samples=[
            {"time_ns": 0, "rank": 0, "counter": "memory.allocated", "value": 64},
            {"time_ns": 50, "rank": 0, "counter": "memory.allocated", "value": 96},
            {"time_ns": 60, "rank": 0, "counter": "memory.reserved", "value": 128},
        ],
    )


COLLECTIVE: Row = {
    "stream": "comm",
    "group": "world",
    "elements": 8,
    "nbytes": 32,
    "wire_bytes": 16,
    "dtype": "float32",
}


@pytest.fixture
def collective() -> Row:
    """Columns of a collective of 8 floats over the group `world` of 2."""
    return dict(COLLECTIVE)
