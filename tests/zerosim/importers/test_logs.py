"""Logs of nccl-tests, NCCL and DeepSpeed say what was sent, and as much of when as they know."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from zerosim.analysis.report import assess
from zerosim.importers import IMPORTERS, deepspeed_comms, nccl_debug, nccl_tests, read
from zerosim.importers.choice import ALL
from zerosim.importers.content import Content
from zerosim.importers.recording import Recording
from zerosim.trace import Flag, Trace

DEEPSPEED = (
    "[2026-01-02 03:04:05,678] [INFO] [logging.py:69:log_dist] [Rank {rank}] rank={rank} |"
    " comm op: {name} | time (ms): {ms} | msg size: {size} | algbw (Gbps): 1.0 | busbw (Gbps): 1.0\n"
)
HEAD = "#       size         count    type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
RANKS = "".join(
    f"#  Rank {r} Group 0 Pid 1{r} on host device {r} [0x0{r}] NVIDIA H100\n" for r in range(4)
)
CALL = (
    "node1:10:12 [0] NCCL INFO AllGather: opCount 1f sendbuff 0x7f recvbuff 0x8f count 1024"
    " datatype 9 op 0 root 0 comm 0xabc [nranks=2] stream 0x55\n"
)
INIT = "node1:{pid}:12 [0] NCCL INFO comm {comm} rank {rank} nranks {n} cudaDev 0 busId 7000 - Init COMPLETE\n"


def written(tmp_path: Path, text: str, name: str = "some.log") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def rows(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    return trace.spans.select(columns).rows()


def parsed(format_: Any, text: bytes) -> tuple[Recording, ...]:
    found: tuple[Recording, ...] = format_.parse(Content(Path("some.log"), text), ALL)
    return found


def test_deepspeed_lines_are_ops_one_after_the_other(tmp_path: Path) -> None:
    text = DEEPSPEED.format(rank=1, name="reduce_scatter_tensor", ms="9.46", size="678.86 MB")
    text += "unrelated line\n" + DEEPSPEED.format(
        rank=1, name="all_gather_into_tensor | [Caller Func: fetch]", ms="0.11", size="6.0 MB"
    )
    trace = read([written(tmp_path, text)])
    assert rows(trace, "rank", "kind", "nbytes", "start_ns", "end_ns") == [
        (1, "reduce_scatter", round(678.86 * 1024 * 1024), 0, 9_460_000),
        (1, "all_gather", 6 * 1024 * 1024, 9_460_000, 9_570_000),
    ]
    assert trace.meta.quality.events == 2
    assert any("waits for each collective" in text for text in trace.meta.quality.unknown)


def test_deepspeed_ranks_of_one_log_are_told_apart(tmp_path: Path) -> None:
    lines = [
        DEEPSPEED.format(rank=r, name="all_reduce", ms="1.0", size=size)
        for r, size in ((3, "1.5 KB"), (0, "2.0 B"), (3, "1.0 GB"))
    ]
    trace = read([written(tmp_path, "".join(lines))])
    assert rows(trace, "rank", "nbytes") == [(0, 2), (3, 1536), (3, 2**30)]


@pytest.mark.parametrize(
    "line",
    [
        "comm op: all_reduce | time (ms): ",
        "comm op: all_reduce | time (ms): nan | msg size: 1.0 MB |",
        "comm op: all_reduce | time (ms): 1.0 | msg size: -1 MB |",
        "comm op: all_reduce | time (ms): 1.0 | msg size: 99999999999999 PB |",
        "comm op: <script> | time (ms): 1.0 | msg size: 1.0 MB |",
    ],
)
def test_a_torn_deepspeed_line_is_left_out_and_its_byte_named(tmp_path: Path, line: str) -> None:
    good = DEEPSPEED.format(rank=0, name="all_reduce", ms="1.0", size="1.0 MB")
    quality = read([written(tmp_path, good + line)]).meta.quality
    assert (quality.events, quality.skipped) == (2, 1)
    assert quality.places[0].byte == len(good)


def test_a_log_of_torn_lines_alone_is_no_trace_without_a_word() -> None:
    (recording,) = parsed(deepspeed_comms, b"comm op: x | time (ms): y")
    assert (recording.spans.height, recording.quality.skipped) == (0, 1)


def test_a_row_of_nccl_tests_is_two_collectives(tmp_path: Path) -> None:
    text = (
        RANKS
        + HEAD
        + "        1024           256   float     sum      -1    10.50    2.00    3.00      0    12.00    2.00    3.00      0\n"
    )
    trace = read([written(tmp_path, text)])
    assert rows(trace, "stream", "kind", "elements", "nbytes", "dtype", "start_ns", "end_ns") == [
        ("out of place", "all_reduce", 256, 1024, "float32", 0, 10_500),
        ("in place", "all_reduce", 256, 1024, "float32", 10_500, 22_500),
    ]
    assert (trace.meta.world_size, trace.meta.device) == (4, "NVIDIA H100")


def test_the_program_says_which_collective_it_was(tmp_path: Path) -> None:
    text = "# Collective test starting: all_gather_perf\n" + RANKS + HEAD
    text += "  4096  256 bfloat16 none -1 10.5 0.00 0.00 0 N/A N/A N/A N/A\n"
    trace = read([written(tmp_path, text)])
    assert rows(trace, "kind", "nbytes", "elements") == [("all_gather", 4096, 2048)]


def test_what_neither_name_nor_bandwidths_tell_stays_unknown(tmp_path: Path) -> None:
    row = "  4096  256 float none -1 10.5 4.00 3.00 0 10.5 4.00 3.00 0\n"
    trace = read([written(tmp_path, RANKS + HEAD + row)])
    assert set(rows(trace, "kind")) == {("collective",)}
    assert trace.meta.quality.warnings == ("'some.log' does not say which collective it measured",)


@pytest.mark.parametrize(
    "rest",
    ["10.5", "10.5 4.00", "10.5 4.00 3.00 0 10.5", "1x 2y 3z 0", "1.0 2.0 3.0 0 x 2.0 3.0 0"],
)
def test_a_torn_row_of_nccl_tests_is_counted(tmp_path: Path, rest: str) -> None:
    torn = f"  4096  256 float none -1 {rest}\n"
    quality = read([written(tmp_path, RANKS + HEAD + torn)]).meta.quality
    assert (quality.events, quality.skipped) == (1, 1)
    assert quality.places[0].byte == len(RANKS + HEAD)


def test_a_row_whose_size_is_torn_is_counted(tmp_path: Path) -> None:
    torn = "  40x6  256 float none -1 10.5 4.00 3.00 0 10.5 4.00 3.00 0\n"
    quality = read([written(tmp_path, RANKS + HEAD + torn)]).meta.quality
    assert (quality.events, quality.skipped) == (1, 1)


def test_calls_of_nccl_have_sizes_and_groups_and_no_time(tmp_path: Path) -> None:
    text = INIT.format(pid=10, comm="0xabc", rank=1, n=2) + CALL
    trace = read([written(tmp_path, text)])
    assert rows(trace, "rank", "kind", "elements", "nbytes", "dtype", "group", "flags") == [
        (1, "all_gather", 2048, 4096, "bfloat16", "comm 0 of 2", int(Flag.UNTIMED))
    ]
    assert [(g.name, g.size, g.ranks) for g in trace.meta.groups] == [("comm 0 of 2", 2, (0, 1))]


def test_a_log_of_nccl_without_calls_says_how_to_log_them(tmp_path: Path) -> None:
    text = "".join(INIT.format(pid=10 + n, comm="0xabc", rank=n, n=3) for n in (0, 1))
    trace = read([written(tmp_path, text)])
    assert trace.meta.quality.warnings == (
        "'some.log' tells of no call: log with NCCL_DEBUG_SUBSYS=INIT,COLL",
    )
    told = assess(trace)
    assert (told["ranks_present"], told["ranks_missing"]) == ([[0, 1]], [[2, 2]])


def test_the_largest_communicator_says_the_rank(tmp_path: Path) -> None:
    text = INIT.format(pid=10, comm="0x1", rank=1, n=2) + INIT.format(
        pid=10, comm="0x2", rank=5, n=8
    )
    trace = read([written(tmp_path, text + CALL.replace("0xabc", "0x1"))])
    assert rows(trace, "rank", "group") == [(5, "comm 0 of 2")]
    assert trace.meta.world_size == 8
    assert [(g.size, g.ranks) for g in trace.meta.groups] == [(2, None), (8, tuple(range(8)))]


def test_a_world_of_millions_is_not_listed_rank_by_rank() -> None:
    inits = [INIT.format(pid=10, comm=f"0x{i}", rank=0, n=2**24) for i in range(9)]
    (recording,) = parsed(nccl_debug, "".join(inits).encode())
    assert {(g.size, g.ranks) for g in recording.groups} == {(2**24, None)}


def test_lines_torn_into_each_other_are_read_as_far_as_they_are_whole(tmp_path: Path) -> None:
    text = INIT.format(pid=10, comm="0xabc", rank=0, n=2) + CALL[:90] + CALL + CALL[:-10]
    quality = read([written(tmp_path, text)]).meta.quality
    assert (quality.events, quality.skipped) == (4, 1)
    (place,) = quality.places
    assert place.byte == len(INIT.format(pid=10, comm="0xabc", rank=0, n=2))


@pytest.mark.parametrize("cut", range(0, 900, 7))
def test_a_log_cut_anywhere_gives_rows_or_says_what_it_lost(cut: int) -> None:
    text = INIT.format(pid=10, comm="0xabc", rank=0, n=2) + CALL * 2 + RANKS + HEAD
    text += "  4096  256 float none -1 10.5 4.00 3.00 0 10.5 4.00 3.00 0\n"
    text += DEEPSPEED.format(rank=0, name="all_reduce", ms="1.0", size="1.0 MB")
    for format_ in (nccl_debug, nccl_tests, deepspeed_comms):
        for recording in parsed(format_, text[:cut].encode()):
            assert recording.quality.skipped <= 1
            assert recording.quality.skipped == len(recording.quality.places)


def test_the_quirk_of_deepspeed(shared: Path) -> None:
    trace = read([shared / "quirks" / "53_deepspeed_verbose.log"])
    assert rows(trace, "kind", "nbytes") == [
        ("reduce_scatter", 711_836_303),
        ("all_gather", 6_291_456),
    ]


@pytest.mark.parametrize(
    ("log", "kind"), [("allreduce", "all_reduce"), ("allgather", "collective")]
)
def test_real_tables_of_nccl_tests(shared: Path, log: str, kind: str) -> None:
    trace = read([shared / "microsoft+superbenchmark" / f"tests__data__nccl_{log}.log"])
    assert (trace.meta.quality.events, trace.meta.quality.skipped) == (34, 0)
    assert Counter(rows(trace, "kind")) == {(kind,): 68}
    assert (trace.meta.world_size, trace.meta.device) == (8, "A100-SXM4-40GB")
    assert trace.spans["nbytes"].max() == 8_589_934_592


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("experiments__bandwidth__all_reduce_bench-a100-n4.txt", [32]),
        (
            "experiments__gpt2-meg-ds-zero__meg_ds_zero_gpt2_perf_n16-1999616.out.gz",
            [4, 16, 64],
        ),
    ],
)
def test_real_logs_of_nccl(shared: Path, name: str, sizes: list[int]) -> None:
    truth = json.loads((shared / "truth_give.json").read_text())["other"]
    stem = name.rpartition("__")[2].removesuffix(".gz")
    told = next(value for key, value in truth.items() if f"/{stem}@" in key)
    trace = read([shared / "bigscience-workshop+bigscience" / name])
    assert trace.meta.quality.events == told["nccl_info_lines"]
    assert trace.meta.world_size == max(told["nranks"]) == told["nccl_info_hosts_pids"]
    assert sorted({group.size for group in trace.meta.groups}) == told["nranks"] == sizes


def test_the_formats_are_asked_for_the_table_before_the_lines_around_it() -> None:
    names = list(IMPORTERS)
    assert names.index("nccl-tests") < names.index("nccl-debug")


def test_calls_that_are_not_in_a_log_of_nccl_are_noticed_by_their_numbers(tmp_path: Path) -> None:
    init = INIT.format(pid=10, comm="0xabc", rank=0, n=2)
    calls = [CALL.replace("opCount 1f", f"opCount {n:x}") for n in range(14, 20)]
    assert read([written(tmp_path, init + "".join(calls))]).meta.quality.warnings == ()
    del calls[2:4]
    (said,) = read([written(tmp_path, init + "".join(calls))]).meta.quality.warnings
    assert said == "'some.log' lacks 2 calls of rank 0, by the numbers of the others"
    torn = calls[0].replace("opCount e ", "opCount ")
    again = read([written(tmp_path, init + "".join([calls[0], torn, *calls[2:]]))]).meta.quality
    assert (again.skipped, again.warnings[-1].split(" of rank")[0]) == (
        1,
        "'some.log' lacks 2 calls",
    )


def test_a_row_torn_within_and_one_shorter_than_the_others_are_noticed(tmp_path: Path) -> None:
    whole = "  1024  256  float  sum  -1  10.50  2.00  3.00  0  12.00  2.00  3.00  0\n"
    torn = "  1024  256  float  s10.50  2.00  3.00  0  12.00  2.00  3.00  0\n"
    half = "  1024  256  float  sum  -1  10.50  2.00  3.00  0\n"
    assert read([written(tmp_path, RANKS + HEAD + half * 3)]).meta.quality.skipped == 0
    text = RANKS + HEAD + whole + torn + half
    quality = read([written(tmp_path, text)]).meta.quality
    first = len(RANKS + HEAD + whole)
    assert [place.byte for place in quality.places] == [first, first + len(torn)]
    assert (quality.events, quality.skipped) == (3, 2)
