"""From what ranks noted about memory to the counters of a trace, and to what each rank owns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from zerosim.kinds import COMMUNICATION, Kind
from zerosim.plan import Plan
from zerosim.trace import StateBytes
from zerosim_runtime.records import Record
from zerosim_runtime.resident import RSS

_Change = tuple[int, int, str, int]  # time, rank, counter, bytes more or fewer
_GRADIENTS: Final = "gradients"


def samples(plan: Plan, records: Sequence[Record]) -> pl.DataFrame:
    """Counters `memory.KIND`, `memory.allocated`, `memory.rss` and `bucket.fill`, from each time on."""
    changes = [change for record in records for change in (*_memory(record), *_fills(plan, record))]
    frame = pl.DataFrame(
        changes,
        schema={"time_ns": pl.Int64, "rank": pl.Int32, "counter": pl.String, "change": pl.Int64},
        orient="row",
    )
    key = ["rank", "counter"]
    return (
        frame.sort("rank", "time_ns", maintain_order=True)
        .with_columns(value=pl.col("change").cum_sum().over(key))
        .unique(["time_ns", *key], keep="last", maintain_order=True)
        .select("time_ns", "rank", "counter", "value")
    )


def states(plan: Plan, record: Record) -> StateBytes:
    """What a rank owns: parameters and optimizer throughout, gradients as its last update found them."""
    updates = [d.issued_ns for d in record.rows if plan.ops[d.op].kind is Kind.OPTIMIZER]
    last = updates[-1] if updates else -1
    held = {"parameters": 0, "optimizer": 0, _GRADIENTS: 0}
    for change in record.changes:
        if change.kind in held and (change.kind != _GRADIENTS or change.time_ns <= last):
            held[change.kind] += change.nbytes
    return StateBytes(record.rank, held["parameters"], held[_GRADIENTS], held["optimizer"])


def _memory(record: Record) -> Iterator[_Change]:
    for change in record.changes:
        yield change.time_ns, record.rank, f"memory.{change.kind}", change.nbytes
        if change.kind != RSS:
            yield change.time_ns, record.rank, "memory.allocated", change.nbytes


def _fills(plan: Plan, record: Record) -> Iterator[_Change]:
    """Bytes in buckets that are not under way yet."""
    filled: dict[int, int] = {}
    for done in record.rows:
        op = plan.ops[done.op]
        if op.bucket is None or op.nbytes is None or done.end_ns is None:
            continue
        if op.kind is Kind.FILL:
            filled[op.bucket] = filled.get(op.bucket, 0) + op.nbytes
            yield done.end_ns, record.rank, "bucket.fill", op.nbytes
        elif op.kind in COMMUNICATION and op.bucket in filled:
            start = done.issued_ns if done.start_ns is None else done.start_ns
            yield start, record.rank, "bucket.fill", -filled.pop(op.bucket)
