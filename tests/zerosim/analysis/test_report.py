"""The report on a run's input names who is there, who is missing, and what is unknown."""

from __future__ import annotations

import tracemalloc

from zerosim.analysis.report import assess
from zerosim.kinds import Kind
from zerosim.quality import Place, Quality
from zerosim.trace import Clock, Meta, StepWindow, make_trace


def test_ranks_steps_and_sizes_are_counted() -> None:
    meta = Meta(
        "r",
        "imported",
        8,
        clock=Clock(aligned=False, error_ns=7, offsets_ns=((1, -3),)),
        quality=Quality(3, places=(Place("a", 9, "odd"),), unknown=("memory",), warnings=("w",)),
        steps=tuple(StepWindow(0, step, step, step + 1) for step in (1, 2, 5)),
    )
    spans = {
        "rank": [0, 1, 2, 6],
        "stream": ["s"] * 4,
        "kind": [Kind.ALL_GATHER, Kind.ALL_REDUCE, Kind.BARRIER, Kind.OTHER],
        "name": ["n"] * 4,
        "start_ns": [0] * 4,
        "end_ns": [1] * 4,
        "elements": [5, None, None, None],
    }
    found = assess(make_trace(spans, meta))
    assert found["ranks_present"] == [[0, 2], [6, 6]]
    assert found["ranks_missing"] == [[3, 5], [7, 7]]
    assert found["steps"] == [[1, 2], [5, 5]]
    assert found["collectives"] == {"sized": 1, "unsized": 1}
    assert found["clock"] == {
        "aligned": False,
        "error_ns": 7,
        "offsets_ns": [[1, -3]],
        "corrected": True,
    }
    assert found["places"] == [{"source": "a", "byte": 9, "what": "odd"}]
    assert (found["unknown"], found["warnings"]) == (["memory"], ["w"])


def test_a_rank_whose_file_was_empty_is_not_missing() -> None:
    meta = Meta("r", "imported", 4, quality=Quality(ranks=(1, 2)))
    found = assess(make_trace({}, meta))
    assert (found["ranks_present"], found["ranks_missing"]) == ([[1, 2]], [[0, 0], [3, 3]])


def test_a_run_of_unknown_size_misses_nobody_for_sure() -> None:
    assert assess(make_trace({}, Meta("r", "imported", None)))["ranks_missing"] is None


def test_a_file_may_claim_millions_of_ranks() -> None:
    spans = {"rank": [3], "stream": ["s"], "kind": [Kind.OTHER], "name": ["n"]}
    trace = make_trace({**spans, "start_ns": [0], "end_ns": [1]}, Meta("r", "imported", 2**31 - 1))
    tracemalloc.start()
    assert assess(trace)["ranks_missing"] == [[0, 2], [4, 2**31 - 2]]
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
