"""NCCL Inspector logs give each operation with its size and length, and say what they cannot tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zerosim.errors import TraceFileError
from zerosim.importers import read
from zerosim.trace import Flag

DUMPED_NS = 1_752_867_229_276_385_000


def record(
    coll: str = "AllReduce", *, rank: int = 0, size: int = 8, group: str = "0xabc", **perf: object
) -> dict[str, Any]:
    """An operation of 65,536 bytes that took 110 µs."""
    return {
        "header": {"id": group, "rank": rank, "n_ranks": size, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "dump_timestamp_us": DUMPED_NS // 1000,
            "hostname": "h",
            "pid": 9,
        },
        "coll_perf": {
            "coll": coll,
            "coll_sn": 1,
            "coll_msg_size_bytes": 65536,
            "coll_exec_time_us": 110,
            "coll_timing_source": "kernel_gpu",
            **perf,
        },
    }


def log(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_quirk_48_has_four_operations_and_a_cut_line(shared: Path) -> None:
    trace = read([shared / "quirks" / "48_inspector.jsonl"])
    assert trace.spans.select("rank", "kind", "nbytes").rows() == [
        (2, "all_gather", 16777216),
        (2, "reduce_scatter", 16777216),
        (2, "all_gather", 16777216),
        (2, "reduce_scatter", 16777216),
    ]
    assert (trace.spans["end_ns"] - trace.spans["start_ns"]).to_list() == [
        *(100_000, 101_000, 102_000, 103_000)
    ]
    assert (trace.meta.quality.events, trace.meta.quality.lost) == (4, 1)
    assert trace.meta.quality.places[0].byte == 1788
    assert trace.meta.world_size == 8


def test_operations_are_laid_one_after_another_and_that_is_said(tmp_path: Path) -> None:
    trace = read([log(tmp_path / "log", record(), record(coll_sn=2))])
    assert trace.spans.select("start_ns", "end_ns").rows() == [
        (DUMPED_NS - 110_000, DUMPED_NS),
        (DUMPED_NS, DUMPED_NS + 110_000),
    ]
    assert any("not when they ran" in text for text in trace.meta.quality.unknown)


def test_a_verbose_log_says_when_kernels_ran(tmp_path: Path) -> None:
    ran = {
        "coll_start_ts": 1_752_867_229_000_000,
        "coll_stop_ts": 1_752_867_229_000_200,
        "kernel_events": [
            {"channel_id": 0, "kernel_start_ts": 1_752_867_229_000_020, "kernel_stop_ts": 1_752_867_229_000_090},
            {"channel_id": 1, "kernel_start_ts": 1_752_867_229_000_010, "kernel_stop_ts": 1_752_867_229_000_080},
        ],
    }  # fmt: skip
    files = [
        log(tmp_path / f"{rank}.log", record(rank=rank, event_trace_ts=ran)) for rank in (0, 1)
    ]
    trace = read(files)
    assert trace.spans.select("rank", "start_ns", "end_ns", "collective").rows() == [
        (0, 1_752_867_229_000_010_000, 1_752_867_229_000_090_000, 0),
        (1, 1_752_867_229_000_010_000, 1_752_867_229_000_090_000, 0),
    ]
    assert trace.meta.clock.aligned


def test_ranks_without_times_are_not_compared(tmp_path: Path) -> None:
    files = [log(tmp_path / f"{rank}.log", record(rank=rank)) for rank in (0, 1)]
    assert not read(files).meta.clock.aligned


@pytest.mark.parametrize(
    ("perf", "nbytes"),
    [
        ({"coll_algobw_gbs": 19.065018}, 65536 * 32),
        ({"coll_algobw_gbs": 0.595781}, 65536),
        ({}, 65536 * 32),
        ({"coll_exec_time_us": "soon"}, 65536 * 32),
        ({"coll_msg_size_bytes": None}, None),
    ],
)
def test_the_bandwidth_says_whether_a_size_is_of_one_rank(
    tmp_path: Path, perf: dict[str, Any], nbytes: int | None
) -> None:
    trace = read([log(tmp_path / "log", record("ReduceScatter", size=32, **perf))])
    assert trace.spans["nbytes"].to_list() == [nbytes]
    assert trace.meta.quality.unsized == (nbytes is None)


def test_a_header_of_its_own_holds_for_what_follows(tmp_path: Path) -> None:
    whole = record(rank=3)
    path = log(
        tmp_path / "log",
        {"dump_stats": {"header": whole["header"], "metadata": whole["metadata"]}},
        {"coll_perf": whole["coll_perf"]},
    )
    assert read([path]).spans.select("rank", "kind").rows() == [(3, "all_reduce")]


def test_the_rank_of_a_process_is_that_in_its_biggest_communicator(tmp_path: Path) -> None:
    path = log(
        tmp_path / "log",
        record(rank=1, size=2, group="tensor"),
        record(rank=5, size=8, group="world"),
    )
    trace = read([path])
    assert trace.ranks == (5,)
    assert [(g.name, g.size) for g in trace.meta.groups] == [("tensor", 2), ("world", 8)]


def test_a_process_may_be_several_ranks(tmp_path: Path) -> None:
    trace = read([log(tmp_path / "log", record(rank=0), record(rank=1))])
    assert trace.ranks == (0, 1)


def test_sends_and_receives_are_read(tmp_path: Path) -> None:
    whole = record()
    whole["p2p_perf"] = {"p2p": "Send", "p2p_peer": 1, "p2p_msg_size_bytes": 8192, "p2p_sn": 4}
    del whole["coll_perf"]
    trace = read([log(tmp_path / "log", whole)])
    assert trace.spans.select("kind", "nbytes", "flags").rows() == [("p2p", 8192, Flag.UNTIMED)]


def test_a_log_of_nothing_but_headers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"header": {}, "coll_perf": 3}\n')
    with pytest.raises(TraceFileError, match="no operation that can be read"):
        read([path])
