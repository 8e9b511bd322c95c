"""Tables of DeepSpeed's comms logger: as many collectives as they count, each as long as the mean."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from zerosim.errors import TraceFileError
from zerosim.importers import deepspeed_comms, read
from zerosim.trace import Trace

WIDTH = 20
HEAD = (
    "Comm. Op|Message Size|Count|Total Latency(ms)|Avg Latency(ms)|tput_avg (Gbps)|busbw_avg (Gbps)"
)
STRAGGLERS = "Comm. Op|Message Size|Count|Total comm lat(ms)|Total straggler(ms)|Avg comm lat(ms)|Avg straggler(ms)"
LINE = (
    "[INFO] [Rank 0] comm op: all_reduce | time (ms): 1.00 | msg size: 2.0 KB |"
    " algbw (Gbps): 1.0 | busbw (Gbps): 1.0\n"
)


def line(cells: str) -> str:
    return "".join(cell.ljust(WIDTH) for cell in cells.split("|")) + "\n"


def row(size: str, n: int, total: str, more: str = "9.99|0.43|0.41") -> str:
    return line(f" |{size}|{n}|{total}|{more}")


TABLE = line(HEAD) + "broadcast\n" + row("2.0 KB", 3, "12.00") + row("1.5 MB", 1, "8.25")


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "train.log"
    path.write_text(text)
    return path


def rows(trace: Trace) -> list[tuple[Any, ...]]:
    return trace.spans.select("kind", "nbytes", "start_ns", "end_ns").rows()


def counts(trace: Trace) -> Counter[Any]:
    return Counter(trace.spans.select("name", "nbytes").iter_rows())


def test_a_row_is_so_many_collectives_of_mean_length(tmp_path: Path) -> None:
    trace = read([written(tmp_path, "step 1\n" + TABLE)])
    assert rows(trace) == [
        ("broadcast", 2048, 0, 4_000_000),
        ("broadcast", 2048, 4_000_000, 8_000_000),
        ("broadcast", 2048, 8_000_000, 12_000_000),
        ("broadcast", 1_572_864, 12_000_000, 20_250_000),
    ]
    quality = trace.meta.quality
    assert (quality.events, quality.skipped) == (4, 0)
    assert any("each counts as their mean" in text for text in quality.unknown)
    assert any("waits for each collective" in text for text in quality.unknown)


def test_names_may_bear_who_called(tmp_path: Path) -> None:
    text = TABLE + "all_reduce | [Caller Func: reduce_fn]\n" + row("0B", 2, "1.00", "0.50|nan|inf")
    trace = read([written(tmp_path, text)])
    assert counts(trace) == {
        ("broadcast", 2048): 3,
        ("broadcast", 1_572_864): 1,
        ("all_reduce", 0): 2,
    }


def test_lines_count_and_a_table_of_the_same_calls_does_not(tmp_path: Path) -> None:
    trace = read([written(tmp_path, LINE + TABLE + LINE)])
    assert rows(trace) == [
        ("all_reduce", 2048, 0, 1_000_000),
        ("all_reduce", 2048, 1_000_000, 2_000_000),
    ]
    assert trace.meta.quality.warnings == (
        "'train.log' also has tables, of 2 rows: they tell of the same calls, so the lines alone count",
    )
    assert not any("mean" in text for text in trace.meta.quality.unknown)


def test_a_later_table_counts_on_from_an_earlier_one(tmp_path: Path) -> None:
    later = line(HEAD) + "broadcast\n" + row("2.0 KB", 5, "20.00") + row("1.5 MB", 1, "8.25")
    trace = read([written(tmp_path, TABLE + "epoch 2\n" + later)])
    assert counts(trace) == {("broadcast", 2048): 5, ("broadcast", 1_572_864): 1}


def test_a_table_after_a_reset_counts_beside_the_one_before(tmp_path: Path) -> None:
    later = line(HEAD) + "broadcast\n" + row("2.0 KB", 2, "8.00")
    trace = read([written(tmp_path, TABLE + later)])
    assert counts(trace) == {("broadcast", 2048): 5, ("broadcast", 1_572_864): 1}


def test_the_table_of_stragglers_tells_of_no_other_calls(tmp_path: Path) -> None:
    again = "___\nBreakdown with straggler effect\n---\n" + line(STRAGGLERS)
    trace = read([written(tmp_path, TABLE + again + "broadcast\n" + row("2.0 KB", 3, "11.00"))])
    assert counts(trace) == {("broadcast", 2048): 3, ("broadcast", 1_572_864): 1}


def test_what_a_launcher_writes_before_each_line_is_passed_over(tmp_path: Path) -> None:
    text = "".join(f"worker-1: {each}" for each in TABLE.splitlines(keepends=True))
    assert rows(read([written(tmp_path, text)])) == rows(read([written(tmp_path, TABLE)]))


@pytest.mark.parametrize(
    "torn",
    [
        row("2.0 KB", 3, "12.00")[:70] + "\n",
        row("2.0 KB", 3, "12.00")[:27] + "\n",
        row("2.0 KB", 3, "12.00")[45:],
        row("2.0 KB", 0, "12.00"),
        row("2.0 KB", -3, "12.00"),
        row("2.0 KB", 3, "nan"),
        row("1.0 KB", 3, "12.00"),  # sizes ascend, so a name is missing before it
    ],
)
def test_a_row_that_is_not_whole_is_left_out_and_its_byte_named(tmp_path: Path, torn: str) -> None:
    trace = read([written(tmp_path, TABLE + torn)])
    assert counts(trace) == {("broadcast", 2048): 3, ("broadcast", 1_572_864): 1}
    assert trace.meta.quality.skipped == 1
    assert trace.meta.quality.places[0].byte == len(TABLE)


def test_rows_without_a_name_are_left_out(tmp_path: Path) -> None:
    trace = read([written(tmp_path, line(HEAD) + row("2.0 KB", 3, "12.00"))])
    assert (trace.spans.height, trace.meta.quality.skipped) == (0, 1)


def test_more_collectives_than_can_be_held_are_refused(tmp_path: Path) -> None:
    text = line(HEAD) + "broadcast\n" + row("2.0 KB", 9_000_000, "12.00")
    with pytest.raises(TraceFileError, match=r"has tables of 9000000 collectives.*fewer steps"):
        read([written(tmp_path, text)])


@pytest.mark.parametrize("text", [line(HEAD), "Comm. Op Message Size\n" + row("2 KB", 3, "1.0")])
def test_a_head_alone_or_rows_alone_are_no_log(text: str) -> None:
    assert not deepspeed_comms.sniff(text.encode())
    assert deepspeed_comms.sniff(TABLE.encode())
