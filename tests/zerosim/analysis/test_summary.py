"""A run in figures, with exactly the keys that callers rely on."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from zerosim.analysis.summary import MAX_RANKS, summarize
from zerosim.quality import Quality
from zerosim.trace import (
    Clock,
    ModelFacts,
    RankClass,
    StateBytes,
    StepWindow,
    Trace,
)

KEYS = {
    *("name", "source", "world_size", "step_ns", "compute_ns", "comm_ns", "exposed_ns", "overlap"),
    *("tokens_per_s_per_rank", "mfu", "mfu_causal", "peak_bytes", "peak_reserved_bytes"),
    *("bytes_sent", "order", "engine", "ranks", "skew", "quality"),
}
RANK_KEYS = {"rank", "steps", "whole", "by_step", "collectives", "peak_bytes", "states_bytes"}


def test_the_keys_are_those_of_the_contract(one_rank: Trace) -> None:
    run = summarize(one_rank)
    assert set(run) == KEYS
    assert set(run["ranks"][0]) == RANK_KEYS
    assert set(run["ranks"][0]["whole"]) == {"compute_ns", "comm_ns", "mem_ns", "exposed_ns"}
    assert set(run["ranks"][0]["by_step"][0]) == {"step", "compute_ns", "comm_ns", "exposed_ns"}
    assert set(run["ranks"][0]["collectives"][0]) == {
        *("kind", "dtype", "group_size", "count", "elements", "nbytes"),
    }
    assert set(run["skew"]) == {
        *("aligned", "n", "wait_ns_per_rank", "arrived_last_count", "straggler"),
    }
    assert set(run["quality"]) == {
        *("events", "repaired", "skipped", "lost", "before_window", "unsized", "warnings"),
    }


def test_totals_are_those_of_the_step(one_rank: Trace) -> None:
    run = summarize(one_rank)
    assert (run["step_ns"], run["compute_ns"], run["comm_ns"], run["exposed_ns"]) == (
        100,
        55,
        60,
        40,
    )
    assert run["overlap"] == pytest.approx(1 - 40 / 60)
    assert run["order"] == "AG0 F0 AG1 B0 RS0 OPT"
    assert run["ranks"][0]["steps"] == [{"step": 1, "start_ns": 0, "step_ns": 100}]


def test_it_is_ready_for_json(one_rank: Trace) -> None:
    run = summarize(one_rank)
    assert orjson.loads(orjson.dumps(run)) == run


def test_peaks_are_the_largest_samples(one_rank: Trace) -> None:
    run = summarize(one_rank)
    assert (run["peak_bytes"], run["peak_reserved_bytes"]) == (96, 128)
    assert run["ranks"][0]["peak_bytes"] == 96


def test_bytes_sent_are_one_ranks_in_the_last_step(make_run: Any, collective: Any) -> None:
    rows = [
        {"kind": "all_gather", "rank": rank, "step": step, "start": 0, "end": 9, **collective}
        for rank in (0, 1)
        for step in (1, 2, 2)
    ]
    steps = tuple(StepWindow(rank, step, 0, 9) for rank in (0, 1) for step in (1, 2))
    assert summarize(make_run(rows, steps=steps))["bytes_sent"] == 32


def test_one_unknown_transfer_leaves_the_bytes_unknown(make_run: Any, collective: Any) -> None:
    rows = [
        {"kind": "all_gather", "start": 0, "end": 9, **collective},
        {"kind": "all_gather", "start": 9, "end": 19, **collective, "wire_bytes": None},
    ]
    assert summarize(make_run(rows))["bytes_sent"] is None


def test_a_run_without_communication_sends_nothing_and_overlaps_nothing(make_run: Any) -> None:
    run = summarize(make_run([{"kind": "forward", "start": 0, "end": 9}]))
    assert (run["comm_ns"], run["bytes_sent"], run["overlap"]) == (0, 0, None)


def test_totals_are_the_slowest_ranks_in_the_last_complete_step(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "rank": rank, "step": step, "start": 0, "end": 10 * step + rank}
        for rank in (0, 1)
        for step in (1, 2)
    ]
    steps = (
        *(StepWindow(0, 1, 0, 90), StepWindow(1, 1, 0, 90)),
        *(StepWindow(0, 2, 0, 40), StepWindow(1, 2, 0, 50), StepWindow(1, 3, 50, 99)),
    )
    run = summarize(make_run(rows, steps=steps))
    assert (run["step_ns"], run["compute_ns"]) == (50, 21)


def test_a_model_gives_tokens_and_utilisation(make_run: Any) -> None:
    model = ModelFacts(n_params=10, tokens=200, flops=300, flops_causal=150, peak_flops=1e10)
    run = summarize(make_run([{"kind": "forward", "start": 0, "end": 9}], model=model))
    assert run["tokens_per_s_per_rank"] == pytest.approx(200 / 100e-9)
    assert run["mfu"] == pytest.approx(300 / (1e10 * 100e-9))
    assert run["mfu_causal"] == pytest.approx(150 / (1e10 * 100e-9))


def test_what_a_model_does_not_say_is_unknown(make_run: Any) -> None:
    model = ModelFacts(n_params=10, tokens=None, flops=None, flops_causal=None, peak_flops=None)
    run = summarize(make_run([{"kind": "forward", "start": 0, "end": 9}], model=model))
    assert (run["tokens_per_s_per_rank"], run["mfu"], run["mfu_causal"]) == (None, None, None)


def test_a_run_without_steps_has_whole_figures_and_unknown_totals(make_run: Any) -> None:
    rows = [{"kind": "all_reduce", "step": None, "start": 0, "end": 9}]
    run = summarize(make_run(rows, steps=(), source="imported"))
    assert run["ranks"][0]["whole"]["comm_ns"] == 9
    assert run["ranks"][0]["steps"] == run["ranks"][0]["by_step"] == []
    totals = ("step_ns", "compute_ns", "comm_ns", "exposed_ns", "overlap", "bytes_sent", "order")
    assert {run[key] for key in totals} == {None}


def test_an_empty_run_has_no_figures_but_does_not_fail(make_run: Any) -> None:
    run = summarize(make_run([], steps=(), world_size=None))
    assert run["ranks"] == []
    assert run["world_size"] is None
    assert run["skew"]["n"] == 0


def folded(make_run: Any, size: int) -> Trace:
    """Two classes of ranks with one row each: rank 0 alone, and 1 to `size` - 1 a little faster."""
    rows = [
        {"kind": "all_reduce", "rank": 0, "collective": 1, "start": 10, "end": 50},
        {"kind": "all_reduce", "rank": 1, "collective": 1, "start": 4, "end": 50},
    ]
    trace: Trace = make_run(
        rows,
        world_size=size,
        classes=(RankClass(0, ((0, 0),)), RankClass(1, ((1, size - 1),))),
        states=(StateBytes(0, 8, 8, 16), StateBytes(1, 4, 4, 8)),
    )
    return trace


def test_ranks_of_a_class_each_get_an_entry(make_run: Any) -> None:
    run = summarize(folded(make_run, 4))
    assert [entry["rank"] for entry in run["ranks"]] == [0, 1, 2, 3]
    assert [entry["whole"]["comm_ns"] for entry in run["ranks"]] == [40, 46, 46, 46]
    assert run["ranks"][3]["states_bytes"] == {"parameters": 4, "gradients": 4, "optimizer": 8}
    assert run["skew"]["wait_ns_per_rank"] == [0, 6, 6, 6]
    assert run["skew"]["arrived_last_count"] == [1, 0, 0, 0]
    assert run["skew"]["straggler"] == 0


def test_too_many_ranks_are_shown_as_classes_with_members(make_run: Any) -> None:
    run = summarize(folded(make_run, MAX_RANKS + 1))
    assert [(entry["rank"], entry["members"]) for entry in run["ranks"]] == [
        (0, [[0, 0]]),
        (1, [[1, MAX_RANKS]]),
    ]
    assert run["skew"]["wait_ns_per_rank"] == [0, 6]
    assert len(summarize(folded(make_run, MAX_RANKS))["ranks"]) == MAX_RANKS


def test_a_class_whose_members_have_rows_of_their_own_is_not_expanded_twice(make_run: Any) -> None:
    rows = [{"kind": "forward", "rank": rank, "start": 0, "end": 9 + rank} for rank in range(3)]
    run = summarize(make_run(rows, classes=(RankClass(0, ((0, 2),)),)))
    assert [entry["whole"]["compute_ns"] for entry in run["ranks"]] == [9, 10, 11]
    assert all("members" not in entry for entry in run["ranks"])


def test_states_are_unknown_unless_told(one_rank: Trace) -> None:
    assert summarize(one_rank)["ranks"][0]["states_bytes"] is None


def test_quality_and_clock_are_passed_on(make_run: Any) -> None:
    quality = Quality(events=7, repaired=1, warnings=("odd",))
    rows = [
        {"kind": "all_reduce", "rank": rank, "collective": 1, "start": rank, "end": 9}
        for rank in (0, 1)
    ]
    run = summarize(make_run(rows, quality=quality, clock=Clock(aligned=False)))
    assert run["quality"]["events"] == 7
    assert run["quality"]["warnings"] == ["odd"]
    assert run["skew"] == {
        "aligned": False,
        "n": 1,
        "wait_ns_per_rank": None,
        "arrived_last_count": None,
        "straggler": None,
    }


def test_summarizing_leaves_the_trace_as_it_was(one_rank: Trace) -> None:
    before = (one_rank.spans.clone(), one_rank.samples.clone(), one_rank.meta)
    summarize(one_rank)
    assert one_rank.spans.equals(before[0])
    assert one_rank.samples.equals(before[1])
    assert one_rank.meta == before[2]
