"""Busy times: unions over streams, and what communication no computation covers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosim.analysis.busy import UNKNOWN, Busy, busy_by_step, busy_whole
from zerosim.trace import Flag, StepWindow, Trace


def test_a_rank_by_hand(one_rank: Trace) -> None:
    assert busy_whole(one_rank) == {0: Busy(compute_ns=55, comm_ns=60, mem_ns=0, exposed_ns=40)}
    assert busy_by_step(one_rank) == {(0, 1): Busy(55, 60, 0, 40)}


def test_streams_that_work_at_once_count_once(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "start": 0, "end": 40, "stream": "a"},
        {"kind": "other", "start": 30, "end": 50, "stream": "b"},
        {"kind": "copy", "start": 45, "end": 60, "stream": "c"},
    ]
    assert busy_whole(make_run(rows))[0].compute_ns == 60


def test_memory_moves_hide_no_communication(make_run: Any) -> None:
    rows = [
        {"kind": "all_reduce", "start": 0, "end": 40},
        {"kind": "memory_op", "start": 10, "end": 30},
    ]
    assert busy_whole(make_run(rows))[0] == Busy(0, 40, 20, 40)


def test_host_and_waits_are_no_work(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "start": 0, "end": 10},
        {"kind": "host", "start": 0, "end": 90},
        {"kind": "wait", "start": 0, "end": 80},
    ]
    assert busy_whole(make_run(rows))[0] == Busy(10, 0, 0, 0)


def test_a_rank_with_host_work_alone_is_unknown(make_run: Any) -> None:
    trace = make_run([{"kind": "host", "start": 0, "end": 9}])
    assert busy_whole(trace) == {0: UNKNOWN}
    assert busy_by_step(trace) == {(0, 1): UNKNOWN}


def test_collectives_without_times_leave_communication_unknown(make_run: Any) -> None:
    rows = [
        {"kind": "other", "start": 0, "end": 10},
        {"kind": "all_reduce", "start": 5, "end": 5, "flags": int(Flag.UNTIMED)},
    ]
    assert busy_whole(make_run(rows))[0] == Busy(10, None, 0, None)
    assert busy_whole(make_run(rows[1:]))[0] == UNKNOWN


def test_one_untimed_collective_among_timed_ones_does_not(make_run: Any) -> None:
    rows = [
        {"kind": "all_reduce", "start": 0, "end": 10},
        {"kind": "all_reduce", "start": 5, "end": 5, "flags": int(Flag.UNTIMED)},
    ]
    assert busy_whole(make_run(rows))[0] == Busy(0, 10, 0, 10)


def test_work_counts_to_the_step_it_was_launched_in_whole(make_run: Any) -> None:
    rows = [
        {"kind": "all_reduce", "start": 90, "end": 130, "step": 1},
        {"kind": "forward", "start": 120, "end": 150, "step": 2},
    ]
    trace = make_run(rows, steps=(StepWindow(0, 1, 0, 100), StepWindow(0, 2, 100, 200)))
    assert busy_by_step(trace) == {(0, 1): Busy(0, 40, 0, 40), (0, 2): Busy(30, 0, 0, 0)}
    assert busy_whole(trace)[0] == Busy(30, 40, 0, 30)


def test_work_of_no_step_counts_to_none(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "start": 0, "end": 50, "step": None},
        {"kind": "forward", "start": 50, "end": 60, "step": 1},
    ]
    assert busy_by_step(make_run(rows)) == {(0, 1): Busy(10, 0, 0, 0)}


def test_an_idle_step_of_a_known_rank_is_zero_and_of_an_unknown_one_unknown(make_run: Any) -> None:
    steps = tuple(StepWindow(rank, step, 0, 9) for rank in (0, 1) for step in (1, 2))
    rows = [
        {"kind": "forward", "start": 0, "end": 5, "rank": 0, "step": 1},
        {"kind": "forward", "start": 0, "end": 5, "rank": 1, "step": None},
    ]
    found = busy_by_step(make_run(rows, steps=steps))
    assert found[0, 2] == Busy(0, 0, 0, 0)
    assert found[1, 1] == found[1, 2] == UNKNOWN


def test_ranks_are_measured_apart(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "start": 0, "end": 50, "rank": 4},
        {"kind": "all_reduce", "start": 0, "end": 50, "rank": 9},
    ]
    assert busy_whole(make_run(rows)) == {4: Busy(50, 0, 0, 0), 9: Busy(0, 50, 0, 50)}


def test_an_empty_run_has_no_ranks(make_run: Any) -> None:
    assert busy_whole(make_run([], steps=())) == {}
    assert busy_by_step(make_run([], steps=())) == {}


KINDS = st.sampled_from(["forward", "optimizer", "all_gather", "all_reduce", "memory_op"])
ROWS = st.lists(st.tuples(KINDS, st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=12)


@pytest.mark.parametrize("shift", [0, 1_795_998_197_000_000_000])
@settings(deadline=None, max_examples=60)
@given(rows=ROWS)
def test_busy_times_equal_counting_nanoseconds(
    shift: int, rows: list[tuple[str, int, int]]
) -> None:
    from tests.zerosim.analysis.conftest import run_of  # noqa: PLC0415 - fixtures do not mix with given

    moments: dict[str, set[int]] = {"compute": set(), "comm": set(), "mem": set()}
    for kind, start, length in rows:
        sort = {"memory_op": "mem", "all_gather": "comm", "all_reduce": "comm"}.get(kind, "compute")
        moments[sort] |= set(range(start, start + length))
    trace = run_of([{"kind": k, "start": s + shift, "end": s + shift + n} for k, s, n in rows])
    assert busy_whole(trace)[0] == Busy(
        len(moments["compute"]),
        len(moments["comm"]),
        len(moments["mem"]),
        len(moments["comm"] - moments["compute"]),
    )
