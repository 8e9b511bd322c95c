"""Which steps count, in which order their ops were issued, how many collectives there were."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.analysis.order import issue_order
from zerosim.analysis.steps import (
    complete_steps,
    last_complete_step,
    slowest_window,
    steady_step,
)
from zerosim.analysis.tally import Tally, tally_collectives
from zerosim.trace import Flag, Group, StepWindow, Trace


def windows(*steps: tuple[int, int, int, int]) -> tuple[StepWindow, ...]:
    return tuple(StepWindow(*step) for step in steps)


def test_a_step_is_complete_if_all_ranks_have_it(make_run: Any) -> None:
    steps = windows((0, 1, 0, 9), (0, 2, 10, 19), (1, 2, 10, 19), (1, 3, 20, 29))
    assert complete_steps(make_run([], steps=steps)) == (2,)


def test_a_step_with_an_op_that_never_ended_is_not_complete(make_run: Any) -> None:
    steps = windows((0, 1, 0, 9), (0, 2, 10, 19))
    cut = {"kind": "other", "start": 12, "end": 12, "step": 2, "flags": int(Flag.UNFINISHED)}
    assert last_complete_step(make_run([cut], steps=steps)) == 1


def test_a_run_without_steps_has_none(make_run: Any) -> None:
    trace = make_run([], steps=())
    assert complete_steps(trace) == ()
    assert last_complete_step(trace) is None
    assert steady_step(trace) is None
    assert slowest_window(trace, None) is None


@pytest.mark.parametrize(
    ("steps", "steady"),
    [((1,), 1), ((0, 1), 0), ((0, 1, 2, 3), 2), ((5, 6), 5), ((1, 2), 2), ((0,), 0)],
)
def test_the_steady_step_is_past_the_warm_up(
    make_run: Any, steps: tuple[int, ...], steady: int
) -> None:
    found = tuple(StepWindow(0, step, step * 10, step * 10 + 9) for step in steps)
    assert steady_step(make_run([], steps=found)) == steady


def test_the_slowest_rank_of_a_step_is_found(make_run: Any) -> None:
    trace = make_run([], steps=windows((0, 1, 0, 9), (1, 1, 0, 12), (2, 1, 5, 17)))
    assert slowest_window(trace, 1) == StepWindow(1, 1, 0, 12)


def test_the_order_of_a_step_is_the_names_as_issued(one_rank: Trace) -> None:
    assert issue_order(one_rank) == "AG0 F0 AG1 B0 RS0 OPT"


def test_equal_names_in_a_row_all_stand_in_the_order(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "name": "F0", "unit": "0", "start": t, "end": t + 1} for t in (0, 2)
    ]
    assert issue_order(make_run(rows)) == "F0 F0"


def test_a_layer_that_ran_as_many_ops_stands_once(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "name": "aten::mul", "unit": "b.0", "start": 0, "end": 1},
        {"kind": "forward", "name": "aten::add", "unit": "b.0", "start": 1, "end": 2},
        {"kind": "other", "name": "aten::empty", "start": 2, "end": 3},
        {"kind": "forward", "name": "aten::mul", "unit": "b.1", "start": 3, "end": 4},
        {"kind": "optimizer", "name": "aten::lerp", "start": 5, "end": 6},
    ]
    assert issue_order(make_run(rows)) == "Fb.0 Fb.1 OPT"


def test_a_run_that_does_not_know_its_phases_has_no_order(make_run: Any, collective: Any) -> None:
    rows = [
        {"kind": "other", "start": 0, "end": 5},
        {"kind": "all_gather", "start": 5, "end": 9, **collective},
    ]
    assert issue_order(make_run(rows)) is None
    assert issue_order(make_run([])) is None


def test_the_order_is_the_lowest_ranks_in_the_steady_step(make_run: Any) -> None:
    rows = [
        {
            "kind": "forward",
            "name": f"F{rank}{step}",
            "rank": rank,
            "step": step,
            "start": 0,
            "end": 1,
        }
        for rank in (3, 7)
        for step in (1, 2, 3)
    ]
    steps = tuple(StepWindow(rank, step, 0, 9) for rank in (3, 7) for step in (1, 2, 3))
    assert issue_order(make_run(rows, steps=steps)) == "F"
    named = [{**row, "unit": str(row["name"])[1:]} for row in rows]
    assert issue_order(make_run(named, steps=steps)) == "F32"


def test_collectives_are_counted_by_sort(one_rank: Trace) -> None:
    assert tally_collectives(one_rank) == {
        0: (
            Tally("all_gather", "float32", 2, 2, 16, 64),
            Tally("reduce_scatter", "float32", 2, 1, 8, 32),
        )
    }


def test_collectives_of_other_groups_and_dtypes_are_counted_apart(
    make_run: Any, collective: Any
) -> None:
    rows = [
        {"kind": "all_reduce", "start": 0, "end": 1, **collective},
        {"kind": "all_reduce", "start": 1, "end": 2, **collective, "group": "node"},
        {
            "kind": "all_reduce",
            "start": 2,
            "end": 3,
            **collective,
            "dtype": "bfloat16",
            "nbytes": 16,
        },
    ]
    groups = (Group("world", 2), Group("node", 8))
    assert tally_collectives(make_run(rows, groups=groups))[0] == (
        Tally("all_reduce", "bfloat16", 2, 1, 8, 16),
        Tally("all_reduce", "float32", 2, 1, 8, 32),
        Tally("all_reduce", "float32", 8, 1, 8, 32),
    )


@pytest.mark.parametrize(
    "unknown",
    [{"elements": None}, {"dtype": None}, {"group": None}, {"flags": int(Flag.UNFINISHED)}],
)
def test_what_is_not_known_whole_is_not_counted(
    make_run: Any, collective: Any, unknown: dict[str, Any]
) -> None:
    rows = [{"kind": "all_reduce", "start": 0, "end": 1, **collective, **unknown}]
    assert tally_collectives(make_run(rows)) == {0: ()}


def test_one_unknown_size_leaves_the_bytes_of_its_sort_unknown(
    make_run: Any, collective: Any
) -> None:
    rows = [
        {"kind": "all_reduce", "start": t, "end": t + 1, **collective, "nbytes": nbytes}
        for t, nbytes in ((0, 32), (1, None))
    ]
    assert tally_collectives(make_run(rows))[0] == (Tally("all_reduce", "float32", 2, 2, 16, None),)
