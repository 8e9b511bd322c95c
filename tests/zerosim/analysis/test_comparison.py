"""Two runs side by side, whoever made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from zerosim.analysis.comparison import Pair, compare, pair_ranks
from zerosim.importers import read
from zerosim.trace import RankClass, StepWindow, Trace

GOLDEN = Path(__file__).parents[2] / "golden" / "gloo_ddp"


def test_a_run_equals_itself(one_rank: Trace) -> None:
    found = compare(one_rank, one_rank)
    assert (found["a"], found["b"]) == ("run", "run")
    assert (found["matched"], found["only_a"], found["only_b"]) == (6, 0, 0)
    assert (found["matched_share"], found["step_ratio"]) == (1.0, 1.0)
    assert {r["delta_ns"] for r in found["residuals"]} == {0}
    assert found["accounting"]["a"] == found["accounting"]["b"]


def test_the_keys_are_those_of_the_contract(one_rank: Trace) -> None:
    found = compare(one_rank, one_rank)
    assert set(found) == {
        *("a", "b", "matched", "only_a", "only_b", "matched_share", "step_ratio"),
        *("accounting", "residuals"),
    }
    assert set(found["accounting"]["a"]) == {
        *("compute_ns", "exposed_ns", "wait_ns", "launch_ns", "optimizer_ns", "idle_ns"),
    }
    assert set(found["residuals"][0]) == {"unit", "kind", "rank", "a_ns", "b_ns", "delta_ns"}
    assert orjson.loads(orjson.dumps(found)) == found


@pytest.fixture
def slower(make_run: Any) -> tuple[Trace, Trace]:
    """`b` runs its layers 5 and 30 ns longer, in a step of 150 instead of 100."""

    def layers(first: int, second: int, step: int) -> Trace:
        rows = [
            {"kind": "forward", "name": "F0", "unit": "0", "start": 0, "end": first},
            {"kind": "forward", "name": "F1", "unit": "1", "start": 50, "end": 50 + second},
        ]
        trace: Trace = make_run(rows, steps=(StepWindow(0, 1, 0, step),))
        return trace

    return layers(10, 20, 100), layers(15, 50, 150)


def test_residuals_are_b_less_a_largest_first(slower: tuple[Trace, Trace]) -> None:
    found = compare(*slower)
    assert found["step_ratio"] == 1.5
    assert found["residuals"] == [
        {"unit": "1", "kind": "forward", "rank": 0, "a_ns": 20, "b_ns": 50, "delta_ns": 30},
        {"unit": "0", "kind": "forward", "rank": 0, "a_ns": 10, "b_ns": 15, "delta_ns": 5},
    ]


def test_exchanging_the_runs_turns_the_signs(slower: tuple[Trace, Trace]) -> None:
    found = compare(*slower[::-1])
    assert [r["delta_ns"] for r in found["residuals"]] == [-30, -5]
    assert found["step_ratio"] == pytest.approx(2 / 3)


def test_what_one_run_alone_has_is_counted(make_run: Any) -> None:
    forward = {"kind": "forward", "unit": "0", "start": 0, "end": 9}
    a = make_run([forward, {"kind": "fill", "unit": "0", "start": 9, "end": 12}])
    b = make_run([forward, {"kind": "copy", "unit": "0", "start": 9, "end": 12}] * 1)
    found = compare(a, b)
    assert (found["matched"], found["only_a"], found["only_b"]) == (1, 1, 1)
    assert found["matched_share"] == pytest.approx(1 / 3)


def test_occurrences_are_paired_in_order(make_run: Any, collective: Any) -> None:
    def gathers(*lengths: int) -> Trace:
        rows = [
            {"kind": "all_gather", "unit": "1", "start": 20 * i, "end": 20 * i + n, **collective}
            for i, n in enumerate(lengths)
        ]
        trace: Trace = make_run(rows)
        return trace

    found = compare(gathers(10, 4), gathers(12, 5, 7))
    assert (found["matched"], found["only_a"], found["only_b"]) == (2, 0, 1)
    assert found["residuals"] == [
        {"unit": "1", "kind": "all_gather", "rank": 0, "a_ns": 14, "b_ns": 17, "delta_ns": 3}
    ]


def test_a_kind_without_common_names_is_paired_in_issue_order(
    make_run: Any, collective: Any
) -> None:
    def gathers(*names: str) -> Trace:
        rows = [
            {"kind": "all_gather", "unit": name, "start": 20 * i, "end": 20 * i + 5, **collective}
            for i, name in enumerate(names)
        ]
        trace: Trace = make_run(rows)
        return trace

    found = compare(gathers("0", "1"), gathers("blocks.0", "blocks.1", "head"))
    assert (found["matched"], found["only_b"]) == (2, 1)
    assert sorted(r["unit"] for r in found["residuals"]) == ["0", "1"]


def test_a_layer_of_many_ops_is_one_op_of_a_model(make_run: Any) -> None:
    model = make_run([{"kind": "forward", "name": "F0", "unit": "0", "start": 0, "end": 30}])
    profile = make_run(
        [
            {"kind": "forward", "name": "aten::mul", "unit": "0", "start": 0, "end": 10},
            {"kind": "forward", "name": "aten::add", "unit": "0", "start": 12, "end": 40},
        ]
    )
    found = compare(model, profile)
    assert (found["matched"], found["only_b"]) == (1, 0)
    assert found["residuals"][0]["b_ns"] == 38


def test_a_collective_is_timed_from_its_last_arrival(make_run: Any) -> None:
    def reduce(early: int) -> Trace:
        rows = [
            {"kind": "all_reduce", "rank": 0, "collective": 1, "start": early, "end": 50},
            {"kind": "all_reduce", "rank": 1, "collective": 1, "start": 30, "end": 50},
        ]
        trace: Trace = make_run(rows)
        return trace

    assert {r["delta_ns"] for r in compare(reduce(0), reduce(29))["residuals"]} == {0}


def test_host_time_and_untimed_ops_are_not_compared(make_run: Any) -> None:
    rows = [
        {"kind": "host", "start": 0, "end": 9},
        {"kind": "wait", "start": 0, "end": 9},
        {"kind": "other", "start": 5, "end": 5, "flags": 1},
    ]
    found = compare(make_run(rows), make_run(rows))
    assert (found["matched"], found["matched_share"], found["residuals"]) == (0, None, [])


def folded(make_run: Any, size: int, length: int) -> Trace:
    trace: Trace = make_run(
        [{"kind": "forward", "unit": "0", "start": 0, "end": length}],
        classes=(RankClass(0, ((0, size - 1),)),),
        world_size=size,
    )
    return trace


def whole(make_run: Any, size: int, length: int) -> Trace:
    rows = [
        {"kind": "forward", "unit": "0", "rank": rank, "start": 0, "end": length}
        for rank in range(size)
    ]
    trace: Trace = make_run(rows)
    return trace


def test_a_folded_run_stands_against_every_rank_of_the_other(make_run: Any) -> None:
    found = compare(folded(make_run, 8, 10), whole(make_run, 4, 12))
    assert (found["matched"], found["only_a"], found["only_b"]) == (4, 0, 0)
    assert [(r["rank"], r["delta_ns"]) for r in found["residuals"]] == [
        (0, 2),
        (1, 2),
        (2, 2),
        (3, 2),
    ]


def test_two_folded_runs_are_compared_once_a_pair_of_classes(make_run: Any) -> None:
    a, b = folded(make_run, 16384, 10), folded(make_run, 16384, 12)
    assert pair_ranks(a, b) == (Pair(0, 0, 0),)
    assert compare(a, b)["matched"] == 1


def test_runs_without_common_ranks_are_paired_in_order(make_run: Any) -> None:
    a = make_run([{"kind": "forward", "unit": "0", "rank": 0, "start": 0, "end": 9}])
    b = make_run([{"kind": "forward", "unit": "0", "rank": 70, "start": 0, "end": 9}])
    assert pair_ranks(a, b) == (Pair(0, 0, 70),)
    assert compare(a, b)["matched"] == 1


def test_the_last_complete_step_is_compared(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "unit": "0", "step": step, "start": 0, "end": 10 * step}
        for step in (1, 2)
    ]
    a = make_run(rows, steps=(StepWindow(0, 1, 0, 50), StepWindow(0, 2, 50, 99)))
    found = compare(a, a)
    assert [r["a_ns"] for r in found["residuals"]] == [20]


def test_runs_without_steps_are_compared_whole(make_run: Any) -> None:
    trace = make_run([{"kind": "forward", "step": None, "start": 0, "end": 9}], steps=())
    found = compare(trace, trace)
    assert (found["matched"], found["step_ratio"]) == (1, None)
    assert found["accounting"] == {"a": None, "b": None}


def test_empty_runs_have_nothing_to_compare(make_run: Any, one_rank: Trace) -> None:
    empty = make_run([], steps=())
    assert compare(empty, empty)["matched"] == 0
    assert compare(empty, one_rank)["only_b"] == 0


def test_a_model_and_a_real_run_can_be_compared(one_rank: Trace) -> None:
    real = read([GOLDEN])
    found = compare(one_rank, real)
    assert found["matched"] == 0  # a gather, a model's kernels: DDP on Gloo has neither
    assert found["step_ratio"] == 233_901_112 / 100
    for side, step_ns in (("a", 100), ("b", 233_901_112)):
        account = found["accounting"][side]
        exposed = sum(account.pop("exposed_ns").values())
        assert sum(account.values()) + exposed == step_ns


def test_collectives_of_other_names_are_paired_in_order_and_kernels_are_not(make_run: Any) -> None:
    a = make_run(
        [
            {"kind": "all_gather", "name": "AG0", "start": 0, "end": 10},
            {"kind": "optimizer", "name": "OPT", "start": 10, "end": 20},
        ]
    )
    b = make_run(
        [
            {"kind": "all_gather", "name": "ncclDevKernel_AllGather", "start": 0, "end": 14},
            {"kind": "optimizer", "name": "multi_tensor_apply", "start": 14, "end": 15},
        ]
    )
    found = compare(a, b)
    assert [(r["kind"], r["delta_ns"]) for r in found["residuals"]] == [("all_gather", 4)]
    assert (found["matched"], found["only_a"], found["only_b"]) == (1, 1, 1)
