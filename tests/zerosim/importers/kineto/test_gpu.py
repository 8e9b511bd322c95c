"""GPU files to rows: kinds, sizes, launches, steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zerosim.importers import read
from zerosim.trace import Flag, Group, StepWindow, Trace


@pytest.fixture
def imported(two_steps: Any, tmp_path: Path) -> Trace:
    return read([two_steps.write(tmp_path / "t.json")])


def test_rows_stand_in_host_issue_order(imported: Trace) -> None:
    first = imported.spans.filter(pl.col("step") == 5)
    assert first["kind"].to_list() == ["all_gather", "other", "reduce_scatter"]
    assert first["stream"].to_list() == ["stream 20", "stream 7", "stream 20"]


def test_times_are_absolute_nanoseconds(imported: Trace, base_ns: int) -> None:
    gemm = imported.spans.row(1, named=True)
    assert gemm["issued_ns"] == base_ns + 1_150_000
    assert gemm["start_ns"] == base_ns + 1_200_000
    assert gemm["end_ns"] == base_ns + 1_600_000


def test_a_collective_has_the_size_of_the_full_tensor(imported: Trace) -> None:
    gather = imported.spans.row(0, named=True)
    assert (gather["elements"], gather["nbytes"], gather["dtype"]) == (8, 16, "bfloat16")
    assert (gather["group"], gather["wire_bytes"]) == ("0", None)


def test_the_header_says_what_the_run_is(imported: Trace, base_ns: int) -> None:
    meta = imported.meta
    assert (meta.source, meta.world_size, meta.device) == ("imported", 2, "Unit GPU")
    assert meta.groups == (Group("0", 2, (0, 1)),)
    assert meta.steps == (
        StepWindow(0, 5, base_ns + 1_000_000, base_ns + 2_000_000),
        StepWindow(0, 6, base_ns + 2_000_000, base_ns + 3_000_000),
    )
    assert meta.clock.aligned
    assert meta.clock.error_ns is None


def spans_of(chrome: Any, tmp_path: Path) -> pl.DataFrame:
    return read([chrome.write(tmp_path / "t.json")]).spans


def test_a_kernel_from_before_the_window_has_no_launch_and_no_step(
    two_steps: Any, tmp_path: Path
) -> None:
    two_steps.collective("_allgather_base", 1005, 80, launched=None)
    row = spans_of(two_steps, tmp_path).row(0, named=True)
    assert (row["issued_ns"], row["step"]) == (None, None)
    assert row["flags"] == Flag.BEFORE_WINDOW
    assert row["collective"] is None


def test_a_file_without_launches_does_not_blame_the_window(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    trace.kernel("gemm", 10, 5, launched=None)
    row = spans_of(trace, tmp_path).row(0, named=True)
    assert (row["issued_ns"], row["flags"]) == (None, 0)


def test_host_ops_that_name_a_stream_are_no_gpu_work(two_steps: Any, tmp_path: Path) -> None:
    two_steps.slice("cpu_op", "triton_op", 1100, 900, stream=0)
    two_steps.slice("cuda_sync", "Stream Sync", 1100, 900, stream=7)
    two_steps.slice("gpu_user_annotation", "ProfilerStep#5", 1100, 900, thread=(0, 7), stream=7)
    assert spans_of(two_steps, tmp_path).height == 6


def test_old_category_names_are_understood(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    trace.slice("Operator", "ProfilerStep#3", 0.5, 100)
    trace.slice("Runtime", "cudaLaunchKernel", 1, 2, correlation=9)
    trace.slice("Kernel", "gemm", 5, 10, thread=(0, 7), stream=7, correlation=9)
    trace.slice("Memcpy", "Memcpy HtoD", 20, 4, thread=(0, 7), stream=7, correlation=10)
    spans = spans_of(trace, tmp_path).sort("start_ns")
    assert spans["kind"].to_list() == ["other", "memory_op"]
    assert spans["step"].to_list() == [3, None]


def test_an_unlabelled_kernel_takes_its_size_from_the_call_around_its_launch(
    chrome: Any, tmp_path: Path
) -> None:
    trace = chrome()
    known = {
        "Collective name": "_allgather_base",
        "In msg nelems": 4,
        "Out msg nelems": 8,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": "0",
    }
    trace.slice("cpu_op", "record_param_comms", 5, 20, External_id=77, **known)
    trace.kernel("ncclDevKernel_AllGather_RING_LL(args)", 50, 10, launched=10)
    row = spans_of(trace, tmp_path).row(0, named=True)
    assert (row["kind"], row["elements"], row["nbytes"], row["group"]) == ("all_gather", 8, 32, "0")


def test_an_unlabelled_kernel_takes_its_size_from_the_same_external_id(
    chrome: Any, tmp_path: Path
) -> None:
    trace = chrome()
    known = {"Collective name": "allreduce", "In msg nelems": 4, "dtype": "Float", "Group size": 2}
    trace.slice("cpu_op", "record_param_comms", 5, 2, External_id=77, **known)
    trace.kernel("ncclDevKernel_AllReduce_Sum", 50, 10, launched=10, External_id=77)
    row = spans_of(trace, tmp_path).row(0, named=True)
    assert (row["kind"], row["elements"]) == ("all_reduce", 4)


def test_a_call_of_another_kind_does_not_lend_its_size(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    known = {"Collective name": "allreduce", "In msg nelems": 4, "dtype": "Float"}
    trace.slice("cpu_op", "record_param_comms", 5, 2, External_id=77, **known)
    trace.kernel("ncclDevKernel_AllGather_LL", 50, 10, launched=10, External_id=77)
    row = spans_of(trace, tmp_path).row(0, named=True)
    assert (row["kind"], row["elements"]) == ("all_gather", None)


def test_a_mark_around_the_launch_tells_an_all_to_all_from_a_send(
    chrome: Any, tmp_path: Path
) -> None:
    trace = chrome()
    trace.slice(
        "user_annotation", "nccl:all_to_all", 5, 20, Input_Dims=[[24]], Input_type=["long int"]
    )
    trace.kernel("ncclKernel_SendRecv_RING(args)", 50, 10, launched=10)
    trace.kernel("ncclKernel_SendRecv_RING(args)", 70, 10, launched=40)
    spans = spans_of(trace, tmp_path)
    assert spans["kind"].to_list() == ["all_to_all", "collective"]
    assert spans["nbytes"].to_list() == [192, None]


def test_an_fsdp_mark_names_the_unit_of_a_collective(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    trace.slice("user_annotation", "FSDP::all_gather (blocks.1)", 5, 20)
    trace.collective("_allgather_base", 50, 10, launched=10)
    row = spans_of(trace, tmp_path).row(0, named=True)
    assert (row["unit"], row["name"]) == ("blocks.1", "AGblocks.1")


def test_kernels_launched_by_the_optimizer_are_its_own(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    trace.slice("user_annotation", "Optimizer.step#AdamW.step", 5, 20)
    trace.kernel("adam", 50, 10, launched=10)
    trace.kernel("gemm", 70, 10, launched=30)
    assert spans_of(trace, tmp_path)["kind"].to_list() == ["optimizer", "other"]


def test_many_kernels_of_one_launch_all_belong_to_it(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    trace.step(1, 0.5, 100)
    trace.slice("cuda_runtime", "cudaGraphLaunch", 1, 2, correlation=9)
    for start in (10, 20, 200):
        trace.slice("kernel", "gemm", start, 5, thread=(0, 7), stream=7, correlation=9)
    assert spans_of(trace, tmp_path)["step"].to_list() == [1, 1, 1]


def test_a_kernel_at_time_zero_is_untimed_and_placed_at_its_launch(
    two_steps: Any, tmp_path: Path, base_ns: int
) -> None:
    two_steps.kernel("lost", 0, 0, launched=1500)
    spans = spans_of(two_steps, tmp_path)
    row = spans.filter(pl.col("name").cast(pl.String) == "lost").row(0, named=True)
    assert row["start_ns"] == row["end_ns"] == base_ns + 1_500_000
    assert row["flags"] == Flag.UNTIMED
    assert spans["start_ns"].min() == base_ns + 1_100_000


def test_a_negative_duration_is_an_op_that_never_ended(two_steps: Any, tmp_path: Path) -> None:
    two_steps.kernel("cut", 1800, -1, launched=1790)
    spans = spans_of(two_steps, tmp_path)
    row = spans.filter(pl.col("name").cast(pl.String) == "cut").row(0, named=True)
    assert row["end_ns"] == row["start_ns"]
    assert row["flags"] == Flag.UNFINISHED


def test_a_launch_at_the_end_without_a_kernel_is_an_op_that_never_ended(
    two_steps: Any, tmp_path: Path
) -> None:
    two_steps.slice("cuda_runtime", "cudaLaunchKernel", 2900, 5, correlation=999)
    trace = read([two_steps.write(tmp_path / "t.json")])
    row = trace.spans.row(-1, named=True)
    assert row["flags"] == Flag.UNFINISHED | Flag.UNTIMED
    assert row["step"] == 6
    assert any("its last step is incomplete" in w for w in trace.meta.quality.warnings)


def test_streams_of_several_devices_are_told_apart(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    trace.kernel("a", 10, 5, launched=1, device=0)
    trace.kernel("b", 20, 5, launched=2, device=1)
    assert spans_of(trace, tmp_path)["stream"].to_list() == [
        "device 0 stream 7",
        "device 1 stream 7",
    ]


def test_epoch_microseconds_with_three_decimals_lose_no_digit(tmp_path: Path) -> None:
    document = (
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, '
        '"ts": 1711964646123456.789, "dur": 1.001, "args": {"stream": 7}}]}'
    )
    path = tmp_path / "ns.json"
    path.write_text(document)
    row = read([path]).spans.row(0, named=True)
    assert row["start_ns"] == 1711964646123456789
    assert row["end_ns"] == 1711964646123457790


def test_times_as_text_are_read(chrome: Any, tmp_path: Path, base_ns: int) -> None:
    trace = chrome()
    trace.kernel("gemm", "10.5", "2.25", launched=None)
    row = spans_of(trace, tmp_path).row(0, named=True)
    assert (row["start_ns"] - base_ns, row["end_ns"] - base_ns) == (10_500, 12_750)


def test_an_event_without_a_time_is_left_out_and_counted(two_steps: Any, tmp_path: Path) -> None:
    two_steps.kernel("odd", None, 5, launched=1500)
    two_steps.events.append("not an event")
    trace = read([two_steps.write(tmp_path / "t.json")])
    assert trace.meta.quality.skipped == 2
    assert trace.spans.height == 6
