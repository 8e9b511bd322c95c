"""An Nsight Systems export becomes one rank for each process and device, with what its marks say."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zerosim.analysis.summary import summarize
from zerosim.errors import TraceFileError
from zerosim.importers import read
from zerosim.trace import Flag

AI, PIPIT = "GindaChen+nsys-ai", "hpcgroup+pipit"
REAL = {
    f"{AI}/tests__fixtures__mfu_2gpu_before.sqlite.gz": (
        "GindaChen/nsys-ai:tests/fixtures/mfu_2gpu_before.sqlite@c8f71ebb"
    ),
    f"{AI}/tests__fixtures__mock.sqlite.gz": (
        "GindaChen/nsys-ai:tests/fixtures/mock.sqlite@9d9d2ff8"
    ),
    f"{AI}/5faf0034__tests__fixtures__mock.sqlite.gz": (
        "GindaChen/nsys-ai:tests/fixtures/mock.sqlite@5faf0034"
    ),
    f"{PIPIT}/pipit__tests__data__saxpy-mpi-cuda_nsys_perlmutter0.sqlite.gz": (
        "hpcgroup/pipit:pipit/tests/data/saxpy-mpi-cuda_nsys_perlmutter0.sqlite@4f6385d6"
    ),
}
SESSION = Any
"""The hand-made export of conftest.py, which cannot be imported from here."""


def columns(trace: Any, *names: str) -> list[tuple[Any, ...]]:
    """The rows of `trace`, only `names`."""
    rows: list[tuple[Any, ...]] = trace.spans.select(names).rows()
    return rows


@pytest.mark.parametrize("file", REAL)
def test_figures_of_real_exports_are_exact(shared: Path, file: str) -> None:
    told = json.loads((shared / "truth_give.json").read_text())["other"][REAL[file]]
    trace = read([shared / file])
    found = summarize(trace)["ranks"]
    assert len(found) == len(told["devices"])
    for (device, expected), entry in zip(sorted(told["devices"].items()), found, strict=True):
        rows = trace.spans.filter(pl.col("rank") == entry["rank"])
        kernels = rows.filter(pl.col("kind") != "memory_op")
        assert entry["whole"]["compute_ns"] == expected["compute_busy_ns"]
        assert entry["whole"]["comm_ns"] == expected["comm_busy_ns"]
        assert entry["whole"]["exposed_ns"] == expected["exposed_comm_ns"]
        assert kernels.height == expected["kernels"]
        exchanged = kernels.filter(pl.col("kind") != "other").height
        assert exchanged == sum(expected["comm_kernels"].values())
        assert extent(kernels) == expected["span_ns"]
        assert moved(rows, "Memcpy") == told["CUPTI_ACTIVITY_KIND_MEMCPY"][device]
        if device in told.get("CUPTI_ACTIVITY_KIND_MEMSET", {}):
            assert moved(rows, "Memset") == told["CUPTI_ACTIVITY_KIND_MEMSET"][device]


def extent(rows: pl.DataFrame) -> int:
    last, first = rows["end_ns"].max(), rows["start_ns"].min()
    assert isinstance(last, int)
    assert isinstance(first, int)
    return last - first


def moved(rows: pl.DataFrame, name: str) -> dict[str, int]:
    chosen = rows.filter(pl.col("name").cast(pl.String).str.starts_with(name))
    took = chosen["end_ns"] - chosen["start_ns"]
    return {"n": chosen.height, "bytes": int(chosen["nbytes"].sum()), "ns": int(took.sum())}


def test_two_processes_of_one_export_are_two_ranks(shared: Path) -> None:
    trace = read([shared / AI / "tests__fixtures__mfu_2gpu_before.sqlite.gz"])
    assert trace.ranks == (0, 1)
    assert trace.meta.world_size == 2
    assert trace.meta.clock.aligned
    exchanges = trace.spans.filter(pl.col("kind") == "all_to_all")
    assert exchanges.group_by("rank").len().sort("rank").rows() == [(0, 32), (1, 32)]


def test_kernels_stand_in_order_of_issue_on_the_clock_of_the_world(
    session: SESSION, epoch_ns: int
) -> None:
    session.kernel("late", 500, 600, launched=100)
    session.kernel("early", 450, 500, launched=50)
    trace = read([session.write()])
    assert columns(trace, "name", "issued_ns", "start_ns", "end_ns", "stream") == [
        ("early", epoch_ns + 50, epoch_ns + 450, epoch_ns + 500, "stream 7"),
        ("late", epoch_ns + 100, epoch_ns + 500, epoch_ns + 600, "stream 7"),
    ]


def test_marks_around_a_launch_say_unit_kind_and_step(session: SESSION) -> None:
    session.mark("step 3", 0, 1000)
    session.mark("FSDP::all_gather (blocks.1), op_id = 7", 10, 90)
    session.mark("nccl:_all_gather_base, seq = 5, op_id = 8", 20, 80)
    session.mark("Optimizer.step#AdamW.step", 200, 300)
    session.kernel("ncclDevKernel_Generic(args)", 400, 500, launched=50)
    session.kernel("adam", 500, 600, launched=250)
    session.kernel("gemm", 600, 700, launched=350)
    trace = read([session.write()])
    assert columns(trace, "name", "kind", "unit", "step") == [
        ("AGblocks.1", "all_gather", "blocks.1", 3),
        ("adam", "optimizer", None, 3),
        ("gemm", "other", None, 3),
    ]


def test_a_generic_kernel_without_marks_is_some_collective(session: SESSION) -> None:
    session.kernel("ncclDevKernel_Generic(args)", 400, 500, launched=50)
    trace = read([session.write()])
    assert columns(trace, "kind", "nbytes") == [("collective", None)]
    assert trace.meta.quality.unsized == 1


def test_profiler_steps_win_over_other_numbered_marks(session: SESSION) -> None:
    session.mark("ProfilerStep#8", 0, 500)
    session.mark("iteration 0", 0, 1000)
    session.kernel("gemm", 400, 500, launched=50)
    assert [s.step for s in read([session.write()]).meta.steps] == [8]


def test_a_unit_that_ends_in_a_number_is_no_step(session: SESSION) -> None:
    session.mark("FSDP::backward_prefetch for blocks.2", 0, 500)
    session.kernel("gemm", 400, 500, launched=50)
    assert read([session.write()]).meta.steps == ()


def test_work_without_a_call_came_before_the_recording(session: SESSION) -> None:
    session.kernel("before", 400, 500, launched=None)
    session.kernel("gemm", 500, 600, launched=50)
    trace = read([session.write()])
    assert columns(trace, "name", "flags") == [("before", Flag.BEFORE_WINDOW), ("gemm", 0)]
    assert trace.meta.quality.before_window == 1


def test_an_export_without_calls_says_nothing_of_launches(session: SESSION) -> None:
    session.kernel("gemm", 400, 500, launched=None)
    trace = read([session.write("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME")])
    assert columns(trace, "issued_ns", "flags") == [(None, 0)]


def test_an_untimed_kernel_stands_where_it_was_launched(session: SESSION, epoch_ns: int) -> None:
    session.kernel("untimed", 0, 0, launched=70)
    session.kernel("endless", 90, None, launched=80)
    trace = read([session.write()])
    assert columns(trace, "start_ns", "end_ns", "flags") == [
        (epoch_ns + 70, epoch_ns + 70, Flag.UNTIMED),
        (epoch_ns + 90, epoch_ns + 90, Flag.UNFINISHED),
    ]


@pytest.mark.parametrize(
    ("start", "end"),
    [(500, 400), (-5, 10), ("soon", 10), (2**62, 2**62 + 1), (0, None), (0.5, 1.5)],
)
def test_work_at_impossible_times_is_left_out_and_counted(
    session: SESSION, start: object, end: object
) -> None:
    session.kernel("odd", start, end, launched=None)
    session.kernel("gemm", 500, 600, launched=50)
    trace = read([session.write()])
    assert columns(trace, "name") == [("gemm",)]
    assert trace.meta.quality.skipped == 1
    assert "1 events whose time cannot be read" in trace.meta.quality.places[0].what


def test_tables_with_a_version_in_their_name_are_read(session: SESSION) -> None:
    session.kernel("gemm", 400, 500, launched=50)
    path = session.write(
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V3",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME RENAME TO CUPTI_ACTIVITY_KIND_RUNTIME_V2",
    )
    assert columns(read([path]), "name", "flags") == [("gemm", 0)]


def test_ranks_follow_the_gpus_that_their_processes_see(session: SESSION) -> None:
    session.kernel("second", 400, 500, launched=50, device=0)
    session.kernel("first", 400, 500, launched=50, device=1)
    path = session.write(
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid)",
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 100), (0, 1, 101)",
        "CREATE TABLE TARGET_INFO_GPU (id, name)",
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'Unit GPU'), (1, 'Unit GPU')",
    )
    trace = read([path])
    assert columns(trace, "rank", "name") == [(0, "first"), (1, "second")]
    assert trace.meta.device == "Unit GPU"


def test_copies_on_another_device_belong_to_the_rank_that_made_them(session: SESSION) -> None:
    session.kernel("gemm", 400, 500, launched=50)
    path = session.write(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY"
        " (start, end, deviceId, streamId, globalPid, bytes, copyKind)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (500, 510, 1, 7, {100 << 24}, 64, 10)",
    )
    trace = read([path])
    assert trace.ranks == (0,)
    assert columns(trace, "stream", "name", "nbytes") == [
        ("device 1 stream 7", "Memcpy PtoP", 64),
        ("device 0 stream 7", "gemm", None),
    ]


def test_ranks_of_one_export_have_one_clock_whenever_it_started(session: SESSION) -> None:
    for device in (0, 1):
        session.kernel("ncclDevKernel_AllReduce", 400, 500, launched=50, device=device)
    path = session.write("DELETE FROM TARGET_INFO_SESSION_START_TIME")
    meta = read([path]).meta
    assert meta.clock.aligned
    assert not any("clock" in w for w in meta.quality.warnings)
    second = path.with_name("other.sqlite")
    second.write_bytes(path.read_bytes())
    assert not read([path, second]).meta.clock.aligned


def test_times_that_count_from_the_epoch_already_stay(session: SESSION, epoch_ns: int) -> None:
    session.kernel("gemm", epoch_ns + 400, epoch_ns + 500, launched=epoch_ns)
    trace = read([session.write()])
    assert columns(trace, "start_ns", "end_ns") == [(epoch_ns + 400, epoch_ns + 500)]


def test_graphs_recorded_as_a_whole_are_said_to_hide_communication(session: SESSION) -> None:
    path = session.write(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, graphId)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (500, 900, 0, 7, 3)",
    )
    trace = read([path])
    assert columns(trace, "name", "kind") == [("CUDA graph", "other")]
    assert any("CUDA graphs" in text for text in trace.meta.quality.unknown)


def test_an_export_without_gpu_work_says_so(session: SESSION) -> None:
    trace = read([session.write()])
    assert trace.spans.height == 0
    assert any("has no GPU work" in text for text in trace.meta.quality.warnings)


def test_a_zipped_export_gives_the_same_rows(session: SESSION, tmp_path: Path) -> None:
    session.kernel("gemm", 400, 500, launched=50)
    plain = session.write()
    zipped = tmp_path / "zipped"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    assert read([zipped]).spans.equals(read([plain]).spans)


def test_an_export_of_thousands_of_processes_is_refused(session: SESSION) -> None:
    for device in range(4097):
        session.kernel("gemm", 400, 500, launched=None, device=device)
    with pytest.raises(TraceFileError, match="4097 processes and devices"):
        read([session.write()])


def test_two_exports_of_two_nodes_are_numbered_on(session: SESSION, tmp_path: Path) -> None:
    for device in (0, 1):
        session.kernel("gemm", 400, 500, launched=50, device=device)
    first = session.write()
    second = tmp_path / "second.sqlite"
    second.write_bytes(first.read_bytes())
    assert read([first, second]).ranks == (0, 1, 2, 3)
