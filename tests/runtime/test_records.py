"""A rank's files, written and read back, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import torch

from zerosim.plan import Allocation
from zerosim_runtime.memory import Memory
from zerosim_runtime.recorder import Recorder, open_recorder
from zerosim_runtime.records import Change, Done, read_record, steps_done

HEADER = {"rank": 3, "clock": "one"}


def _recorder(directory: Path) -> Recorder:
    ticks = iter(range(100, 10_000, 100))
    memory = Memory(torch.device("cpu"), now=lambda: next(ticks))
    return open_recorder(directory, 3, memory, HEADER)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path)
    row = recorder.begin(7)
    row.start, row.end = 120, 150
    recorder.memory.new(Allocation("bucket.0", "buckets", 40), 10, torch.float32)
    recorder.write(step=1, loss=0.25)
    recorder.close("finished")
    record = read_record(tmp_path, 3)
    assert record is not None
    assert record.header == HEADER
    assert record.rows == (Done(7, 100, 120, 150),)
    assert record.changes == (Change(200, "buckets", 40),)
    assert record.losses == ((1, 0.25),)
    assert (record.status, record.ended_ns, record.last_op) == ("finished", 300, 7)


def test_rows_under_way_wait_for_the_next_flush_and_keep_their_order(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path)
    first, second = recorder.begin(0), recorder.begin(1)
    second.start, second.end = 250, 260
    recorder.flush()
    before = read_record(tmp_path, 3)
    assert before is not None
    assert before.rows == ()
    first.start, first.end = 110, 240
    recorder.close("finished")
    after = read_record(tmp_path, 3)
    assert after is not None
    assert [done.op for done in after.rows] == [0, 1]


def test_a_rank_that_breaks_writes_what_was_under_way(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path)
    recorder.begin(4)
    recorder.close("failed", "out of luck")
    record = read_record(tmp_path, 3)
    assert record is not None
    assert record.rows == (Done(4, 100, None, None),)
    assert (record.status, record.message, record.last_ns) == ("failed", "out of luck", 200)


def test_a_killed_rank_leaves_its_op_under_way_but_no_last_word(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path)
    recorder.begin(5)
    record = read_record(tmp_path, 3)
    assert record is not None
    assert (record.status, record.last_op, record.rows) == (None, 5, ())
    recorder.close("finished")


def test_a_rank_without_files_has_no_record(tmp_path: Path) -> None:
    assert read_record(tmp_path, 0) is None
    assert steps_done(tmp_path) == 0


def test_a_file_without_a_header_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "rank-0.now").write_bytes(b"\0" * 16)
    for content in (b"", b"not json\n", b'{"row": [0, 1, 2, 3]}\n', b"[1]\n"):
        (tmp_path / "rank-0.jsonl").write_bytes(content)
        assert read_record(tmp_path, 0) is None


def test_lines_after_a_damaged_one_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "rank-0.now").write_bytes(b"\0" * 16)
    lines = b'{"header": {}}\n{"row": [0, 1, 2, 3]}\n{"row": [1, 4\n{"row": [2, 5, 6, 7]}\n'
    (tmp_path / "rank-0.jsonl").write_bytes(lines)
    record = read_record(tmp_path, 0)
    assert record is not None
    assert [done.op for done in record.rows] == [0]


def test_steps_are_counted_while_the_rank_runs(tmp_path: Path) -> None:
    (tmp_path / "rank-0.jsonl").write_bytes(
        b'{"header":{}}\n{"step":1,"loss":1.0}\n{"step":2,"loss":0.5}\n'
    )
    assert steps_done(tmp_path) == 2
