"""CPU files with Gloo: what was asked for, what was moved, what was computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zerosim.importers import read
from zerosim.importers.kineto.events import Slice
from zerosim.importers.kineto.gloo import outermost
from zerosim.trace import Flag


@pytest.fixture
def gloo(chrome: Any) -> Any:
    """A reduce-scatter of 8 floats into 2, called at 10, run as an all-reduce from 20 to 50."""
    trace = chrome()
    trace.header["distributedInfo"] = {
        "rank": 0,
        "world_size": 4,
        "pg_config": [{"pg_name": "0", "pg_size": 4, "ranks": [0, 1, 2, 3]}],
    }
    trace.slice("user_annotation", "FSDP::post_backward_reduce (b.0)", 5, 20)
    trace.slice(
        "cpu_op", "c10d::_reduce_scatter_base_", 10, 3, Record_function_id=7, Input_Dims=[[2], [8]]
    )
    trace.slice(
        "user_annotation",
        "gloo:all_reduce",
        20,
        30,
        thread=(100, 200),
        Record_function_id=9,
        Input_Dims=[[8]],
        Input_type=["float"],
    )
    return trace


def spans_of(trace: Any, tmp_path: Path) -> pl.DataFrame:
    return read([trace.write(tmp_path / "t.json")]).spans


def test_the_call_tells_the_kind_not_what_gloo_runs(
    gloo: Any, tmp_path: Path, base_ns: int
) -> None:
    row = spans_of(gloo, tmp_path).row(0, named=True)
    assert (row["kind"], row["elements"], row["nbytes"]) == ("reduce_scatter", 8, 32)
    assert (row["name"], row["unit"], row["group"]) == ("RSb.0", "b.0", "0")
    assert row["issued_ns"] == base_ns + 10_000
    assert (row["start_ns"], row["end_ns"]) == (base_ns + 20_000, base_ns + 50_000)
    assert row["wire_bytes"] is None


def test_an_all_gather_counts_its_output(gloo: Any, tmp_path: Path) -> None:
    gloo.slice(
        "cpu_op", "c10d::_allgather_base_", 60, 3, Record_function_id=20, Input_Dims=[[8], [2]]
    )
    gloo.slice(
        "user_annotation",
        "gloo:all_gather",
        65,
        5,
        thread=(100, 200),
        Record_function_id=21,
        Input_Dims=[[2]],
        Input_type=["c10::BFloat16"],
    )
    row = spans_of(gloo, tmp_path).row(1, named=True)
    assert (row["kind"], row["elements"], row["nbytes"]) == ("all_gather", 8, 16)


def test_a_call_that_is_silent_leaves_the_size_to_the_transfer(gloo: Any, tmp_path: Path) -> None:
    """Of a list of tensors older profilers wrote no shapes at the call."""
    gloo.slice("cpu_op", "c10d::allreduce_", 60, 3, Record_function_id=20, Input_Dims=[[], []])
    gloo.slice(
        *("user_annotation", "gloo:all_reduce", 65, 5),
        Record_function_id=21,
        Input_Dims=[[321_271]],
        Input_type=["float"],
    )
    gloo.slice("cpu_op", "c10d::allgather_", 80, 3, Record_function_id=30, Input_Dims=[[], []])
    gloo.slice("user_annotation", "gloo:all_gather", 85, 5, Record_function_id=31, Input_Dims=[[2]])
    spans = spans_of(gloo, tmp_path)
    assert spans["kind"].to_list() == ["reduce_scatter", "all_reduce", "all_gather"]
    assert spans["elements"].to_list() == [8, 321_271, None]
    assert spans["nbytes"].to_list() == [32, 4 * 321_271, None]


def test_calls_are_matched_by_record_number_not_by_time(gloo: Any, tmp_path: Path) -> None:
    """The second call's transfer overtakes the first one's on the other thread."""
    gloo.slice("cpu_op", "c10d::allreduce_", 30, 3, Record_function_id=20, Input_Dims=[[[5]]])
    gloo.slice(
        "user_annotation", "gloo:all_reduce", 15, 2, thread=(100, 201), Record_function_id=21
    )
    spans = spans_of(gloo, tmp_path)
    assert spans["kind"].to_list() == ["reduce_scatter", "all_reduce"]
    assert spans["elements"].to_list() == [8, 5]
    assert spans["stream"].to_list() == ["gloo 0", "gloo 1"]


def test_without_record_numbers_the_kth_transfer_is_the_kth_call(gloo: Any, tmp_path: Path) -> None:
    for event in gloo.events:
        event["args"].pop("Record function id", None)
    assert spans_of(gloo, tmp_path)["kind"].to_list() == ["reduce_scatter"]


def test_a_transfer_called_before_the_recording_says_so(gloo: Any, tmp_path: Path) -> None:
    gloo.slice(
        "user_annotation",
        "gloo:broadcast",
        1,
        2,
        thread=(100, 200),
        Record_function_id=3,
        Input_Dims=[[6]],
        Input_type=["float"],
    )
    row = spans_of(gloo, tmp_path).row(0, named=True)
    assert (row["kind"], row["issued_ns"], row["elements"]) == ("broadcast", None, 6)
    assert row["flags"] == Flag.BEFORE_WINDOW


def test_outermost_aten_ops_of_the_main_thread_are_the_computation(
    gloo: Any, tmp_path: Path
) -> None:
    gloo.slice("cpu_op", "aten::linear", 60, 20)
    gloo.slice("cpu_op", "aten::addmm", 62, 10)
    gloo.slice("cpu_op", "aten::copy_", 60, 20, thread=(100, 200))
    gloo.slice("cpu_op", "autograd::engine::evaluate_function: X", 90, 9)
    spans = spans_of(gloo, tmp_path)
    assert spans["name"].to_list() == ["RSb.0", "aten::linear"]
    assert spans["kind"].to_list() == ["reduce_scatter", "other"]


@pytest.mark.parametrize(
    ("mark", "kind", "unit"),
    [
        ("Optimizer.step#SGD.step", "optimizer", None),
        ("DistributedDataParallel.forward", "forward", None),
        ("FSDP::all_gather_copy_out (b.1)", "copy", "b.1"),
        ("FSDP::all_gather (b.1)", "copy", "b.1"),
        ("FSDP::post_forward (b.1)", "other", "b.1"),
        ("something else", "other", None),
    ],
)
def test_the_mark_around_an_op_tells_its_phase(
    gloo: Any, tmp_path: Path, mark: str, kind: str, unit: str | None
) -> None:
    gloo.slice("user_annotation", mark, 60, 20)
    gloo.slice("cpu_op", "aten::mul", 65, 5)
    row = spans_of(gloo, tmp_path).row(1, named=True)
    assert (row["kind"], row["unit"]) == (kind, unit)


def test_ops_of_the_autograd_engine_are_backward(gloo: Any, tmp_path: Path) -> None:
    gloo.slice("user_annotation", "FSDP::pre_backward (b.1)", 60, 1)
    gloo.slice("cpu_op", "autograd::engine::evaluate_function: MulBackward0", 62, 10)
    gloo.slice("cpu_op", "aten::mul", 65, 5)
    gloo.slice("user_annotation", "FSDP::post_backward_reduce (b.1)", 80, 1)
    row = spans_of(gloo, tmp_path).row(1, named=True)
    assert (row["kind"], row["unit"]) == ("backward", "b.1")


def test_ops_between_a_units_forward_hooks_are_its_forward(gloo: Any, tmp_path: Path) -> None:
    gloo.slice("user_annotation", "FSDP::pre_forward (b.1)", 60, 1)
    gloo.slice("cpu_op", "aten::mul", 65, 5)
    gloo.slice("user_annotation", "FSDP::post_forward (b.1)", 80, 1)
    row = spans_of(gloo, tmp_path).row(1, named=True)
    assert (row["kind"], row["unit"]) == ("forward", "b.1")


def test_outermost_keeps_what_lies_in_no_other() -> None:
    def op(start: int, end: int) -> Slice:
        return Slice(start, end, "aten::x", "cpu_op", (1, 1), {}, 0)

    ops = [op(0, 10), op(2, 5), op(5, 10), op(10, 12), op(20, 25), op(20, 30)]
    assert [(o.start, o.end) for o in outermost(ops)] == [(0, 10), (10, 12), (20, 30)]
