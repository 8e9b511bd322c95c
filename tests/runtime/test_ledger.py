"""Counters and states from a hand-made record: two units of memory, one bucket, one update."""

from __future__ import annotations

import polars as pl

from zerosim.kinds import Kind
from zerosim.plan import Axis, Op, Plan
from zerosim.trace import StateBytes
from zerosim_runtime.ledger import samples, states
from zerosim_runtime.records import Change, Done, Record


def _fill(number: int, name: str) -> Op:
    return Op(number, name, Kind.FILL, "compute", elements=5, dtype="float32", bucket=0)


PLAN = Plan(
    "tiny",
    1,
    (
        _fill(0, "fill1"),
        _fill(1, "fill0"),
        Op(
            2,
            "RS1-0",
            Kind.REDUCE_SCATTER,
            "reduce_scatter",
            elements=10,
            dtype="float32",
            group="world",
            communicator="world",
            bucket=0,
        ),
        Op(3, "OPT", Kind.OPTIMIZER, "compute"),
    ),
    (Axis("world", 1),),
)
CHANGES = (
    Change(0, "parameters", 100),
    Change(0, "optimizer", 200),
    Change(5, "buckets", 40),
    Change(30, "gradients", 20),
    Change(30, "buckets", -40),
    Change(95, "gradients", -20),
)
ROWS = (Done(0, 5, 5, 10), Done(1, 20, 20, 25), Done(2, 30, 35, 60), Done(3, 31, 60, 90))


def _record(rows: tuple[Done, ...] = ROWS) -> Record:
    return Record(
        rank=0,
        header={},
        rows=rows,
        changes=CHANGES,
        losses=(),
        offsets=(),
        status="finished",
        message="",
        ended_ns=100,
        last_op=3,
    )


def _counter(name: str, record: Record) -> list[tuple[int, int]]:
    frame = samples(PLAN, [record]).filter(pl.col("counter") == name)
    return list(frame.select("time_ns", "value").iter_rows())


def test_a_kind_of_memory_is_a_running_sum() -> None:
    assert _counter("memory.buckets", _record()) == [(5, 40), (30, 0)]
    assert _counter("memory.gradients", _record()) == [(30, 20), (95, 0)]


def test_allocated_memory_is_the_sum_of_all_kinds_once_a_time() -> None:
    assert _counter("memory.allocated", _record()) == [(0, 300), (5, 340), (30, 320), (95, 300)]


def test_a_bucket_fills_part_by_part_and_empties_when_its_collective_begins() -> None:
    assert _counter("bucket.fill", _record()) == [(10, 20), (25, 40), (35, 0)]


def test_a_collective_that_never_ended_leaves_its_bucket_full() -> None:
    cut = (*ROWS[:2], Done(2, 30, None, None))
    assert _counter("bucket.fill", _record(cut)) == [(10, 20), (25, 40)]


def test_states_are_what_the_last_update_found() -> None:
    assert states(PLAN, _record()) == StateBytes(0, parameters=100, gradients=20, optimizer=200)


def test_without_an_update_a_rank_is_not_said_to_own_gradients() -> None:
    assert states(PLAN, _record(ROWS[:3])).gradients == 0
