"""When gradients are reduced."""

from __future__ import annotations

from typing import Any

from zerosim.analysis.reductions import Reductions, reductions


def test_reductions_after_the_backward_are_late_and_single_numbers_are_none(make_run: Any) -> None:
    trace = make_run(
        [
            {"kind": "backward", "rank": 0, "start": 0, "end": 10},
            {"kind": "reduce_scatter", "rank": 0, "start": 5, "end": 12, "elements": 8},
            {"kind": "all_reduce", "rank": 0, "start": 10, "end": 15, "elements": 8},
            {"kind": "all_reduce", "rank": 0, "start": 16, "end": 17, "elements": 1},
        ]
    )
    assert reductions(trace) == Reductions(n=2, n_late=1)


def test_a_run_without_steps_has_none(make_run: Any) -> None:
    rows = [{"kind": "all_reduce", "start": 0, "end": 1}]
    assert reductions(make_run(rows, steps=())) == Reductions(0, 0)
