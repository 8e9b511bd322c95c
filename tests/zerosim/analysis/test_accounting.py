"""Every nanosecond of a step is on exactly one account."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from zerosim.analysis.accounting import Accounting, account, account_window
from zerosim.trace import Flag, StepWindow, Trace


def total(found: Accounting) -> int:
    exposed = sum(ns for _, ns in found.exposed_ns)
    rest = found.compute_ns + found.optimizer_ns + found.wait_ns + found.launch_ns + found.idle_ns
    return exposed + rest


def test_a_step_by_hand(one_rank: Trace) -> None:
    assert account(one_rank) == Accounting(
        rank=0,
        step=1,
        step_ns=100,
        compute_ns=50,
        optimizer_ns=5,
        exposed_ns=(("all_gather", 30), ("reduce_scatter", 10)),
        wait_ns=0,
        launch_ns=0,
        idle_ns=5,
    )


def test_computation_hides_communication(make_run: Any) -> None:
    rows = [
        {"kind": "all_reduce", "start": 0, "end": 100},
        {"kind": "backward", "start": 10, "end": 70},
        {"kind": "optimizer", "start": 60, "end": 80},
    ]
    found = account(make_run(rows))
    assert found is not None
    assert (found.compute_ns, found.optimizer_ns) == (60, 10)
    assert found.exposed_ns == (("all_reduce", 30),)


def test_waiting_for_the_last_member_is_no_transfer(make_run: Any) -> None:
    rows = [
        {"kind": "all_gather", "rank": 0, "collective": 1, "start": 0, "end": 100},
        {"kind": "all_gather", "rank": 1, "collective": 1, "start": 70, "end": 100},
    ]
    found = account_window(make_run(rows), StepWindow(0, 1, 0, 100))
    assert (found.wait_ns, found.exposed_ns) == (70, (("all_gather", 30),))


def test_idle_before_an_op_was_issued_is_the_hosts(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "start": 0, "end": 10},
        {"kind": "backward", "issued_ns": 40, "start": 60, "end": 100},
    ]
    found = account(make_run(rows))
    assert found is not None
    assert (found.launch_ns, found.idle_ns) == (30, 20)


def test_an_op_issued_long_before_leaves_the_device_idle(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "start": 0, "end": 10},
        {"kind": "backward", "issued_ns": 2, "start": 60, "end": 100},
    ]
    found = account(make_run(rows))
    assert found is not None
    assert (found.launch_ns, found.idle_ns) == (0, 50)


def test_an_op_of_unknown_issue_blames_nobody(make_run: Any) -> None:
    found = account(make_run([{"kind": "forward", "issued_ns": None, "start": 60, "end": 100}]))
    assert found is not None
    assert (found.launch_ns, found.idle_ns) == (0, 60)


def test_work_from_before_and_after_counts_inside_the_window_only(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "start": -50, "end": 20, "step": None},
        {"kind": "backward", "start": 90, "end": 500, "step": 2},
        {"kind": "forward", "start": -90, "end": -60},
    ]
    found = account(make_run(rows))
    assert found is not None
    assert found.compute_ns == 30
    assert total(found) == 100


def test_memory_moves_are_computation_and_untimed_ops_nothing(make_run: Any) -> None:
    rows = [
        {"kind": "memory_op", "start": 0, "end": 20},
        {"kind": "all_reduce", "start": 50, "end": 50, "flags": int(Flag.UNTIMED)},
        {"kind": "host", "start": 0, "end": 100},
    ]
    found = account(make_run(rows))
    assert found is not None
    assert (found.compute_ns, found.exposed_ns, found.idle_ns) == (20, (), 80)


def test_the_slowest_rank_is_accounted_for(make_run: Any) -> None:
    rows = [{"kind": "forward", "rank": rank, "start": 0, "end": 10 * rank} for rank in (1, 2)]
    steps = (StepWindow(1, 1, 0, 50), StepWindow(2, 1, 0, 40))
    found = account(make_run(rows, steps=steps))
    assert found is not None
    assert (found.rank, found.step_ns, found.compute_ns) == (1, 50, 10)


def test_a_run_without_steps_has_no_accounts(make_run: Any) -> None:
    assert account(make_run([{"kind": "forward", "start": 0, "end": 9}], steps=())) is None


KINDS = st.sampled_from(
    ["forward", "optimizer", "all_gather", "all_reduce", "memory_op", "fill", "host", "wait"]
)
ROW = st.tuples(
    KINDS, st.integers(-20, 120), st.integers(0, 60), st.integers(0, 40), st.integers(0, 2)
)


@settings(deadline=None, max_examples=80)
@given(rows=st.lists(ROW, max_size=14))
def test_the_accounts_always_sum_to_the_step(rows: list[tuple[str, int, int, int, int]]) -> None:
    from tests.zerosim.analysis.conftest import run_of  # noqa: PLC0415 - fixtures do not mix with given

    trace = run_of(
        [
            {
                "kind": kind,
                "rank": rank,
                "issued_ns": start - late,
                "start": start,
                "end": start + length,
                "collective": start % 3 if kind.startswith("all") else None,
            }
            for kind, start, length, late, rank in rows
        ],
        steps=(StepWindow(0, 1, 0, 100),),
    )
    found = account(trace)
    assert found is not None
    assert total(found) == found.step_ns == 100
    assert min(found.compute_ns, found.wait_ns, found.launch_ns, found.idle_ns) >= 0
