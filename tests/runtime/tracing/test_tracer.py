"""A rank's record: what is added is written at the end of a step, a fork writes nothing, a full disk breaks nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zerosim.errors import ScenarioError
from zerosim_runtime.records import Offset
from zerosim_runtime.ring import read_life
from zerosim_runtime.tracing.log import Log, read_log
from zerosim_runtime.tracing.spans import Span
from zerosim_runtime.tracing.tracer import Steps, Tracer, open_tracer, steps_of

HEADER = {"rank": 0, "world_size": 2, "unix_ns": 1, "launch": "one"}


def op(step: int | None, at_ns: int = 5) -> Span:
    return Span("all_reduce", "AR0", "world", at_ns, at_ns + 1, at_ns + 2, step=step, seq=0)


def opened(directory: Path, steps: Steps | None = None) -> Tracer:
    return open_tracer(directory, 0, HEADER, steps)


def read(directory: Path) -> Log:
    log = read_log(directory, 0)
    assert log is not None
    return log


def test_what_was_added_is_read_back(tmp_path: Path) -> None:
    tracer = opened(tmp_path)
    tracer.group("world", [0, 1])
    tracer.add(op(1))
    tracer.sample(7, "memory.allocated", 100)
    tracer.offset(Offset(1, 10, 20, 3))
    tracer.fact("engine", "ddp")
    tracer.step(1, 5, 9)
    tracer.close("finished")
    log = read(tmp_path)
    assert log.header == HEADER
    assert log.spans == [op(1)]
    assert log.samples == [(7, "memory.allocated", 100)]
    assert (log.groups, log.steps) == ({"world": (0, 1)}, [(1, 5, 9)])
    assert (log.offsets, log.facts) == ([Offset(1, 10, 20, 3)], {"engine": "ddp"})
    assert (log.status, log.cut) == ("finished", False)


def test_nothing_is_written_before_the_end_of_a_step(tmp_path: Path) -> None:
    tracer = opened(tmp_path)
    tracer.add(op(1))
    assert read(tmp_path).spans == []
    tracer.step(1, 5, 9)
    assert read(tmp_path).spans == [op(1)]


def test_only_the_steps_asked_for_are_kept(tmp_path: Path) -> None:
    tracer = opened(tmp_path, (2, 3))
    for step in (None, 1, 2, 3, 4):
        tracer.add(op(step))
        tracer.step(step or 0, 1, 2)
    tracer.close("finished")
    assert [span.step for span in read(tmp_path).spans] == [2, 3]
    assert [step for step, _, _ in read(tmp_path).steps] == [2, 3]


def test_a_counter_that_does_not_change_takes_no_room(tmp_path: Path) -> None:
    tracer = opened(tmp_path)
    for time_ns, value in ((1, 10), (2, 10), (3, 11)):
        tracer.sample(time_ns, "memory.allocated", value)
    tracer.close("finished")
    assert read(tmp_path).samples == [(1, "memory.allocated", 10), (3, "memory.allocated", 11)]


def test_the_first_last_word_stands(tmp_path: Path) -> None:
    tracer = opened(tmp_path)
    tracer.close("failed", "ValueError: boom")
    tracer.close("finished")
    tracer.add(op(1))
    tracer.flush()
    log = read(tmp_path)
    assert (log.status, log.message, log.spans) == ("failed", "ValueError: boom", [])
    life = read_life(tmp_path, 0)
    assert life is not None
    assert (life.status, life.message) == ("failed", "ValueError: boom")


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    tracer = opened(tmp_path)
    tracer.add(op(1))
    pid = os.fork()
    if pid == 0:
        tracer.ring.issue("world", 0, "all_reduce", None, 1)
        tracer.add(op(2))
        tracer.close("finished")
        os._exit(0)
    os.waitpid(pid, 0)
    tracer.close("finished")
    assert read(tmp_path).spans == [op(1)]
    assert read(tmp_path).noted == ()


def test_a_living_rank_keeps_others_from_its_files(tmp_path: Path) -> None:
    tracer = opened(tmp_path)
    with pytest.raises(BlockingIOError):
        opened(tmp_path)
    tracer.file.close()
    opened(tmp_path).close("finished")
    assert read(tmp_path).status == "finished"


def test_a_full_disk_ends_the_record_and_not_the_program(tmp_path: Path) -> None:
    tracer = opened(tmp_path)
    tracer.add(op(1))
    tracer.step(1, 5, 9)
    tracer.file.close()
    tracer.file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115, PTH123 - as the tracer does
    tracer.add(op(2))
    tracer.step(2, 9, 12)
    assert not tracer.live
    assert "No space left" in tracer.problem
    assert read(tmp_path).spans == [op(1)]


def test_a_record_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    tracer = opened(tmp_path)
    tracer.add(op(1))
    tracer.add(op(2))
    tracer.close("finished")
    path = tmp_path / "rank-0.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b'"status"') - 20])
    assert read(tmp_path).spans == [op(1)]
    assert read(tmp_path).cut


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (None, None),
        ("", None),
        ("3:5", (3, 5)),
        ("4", (4, 4)),
        (":2", (1, 2)),
        ("2:", (2, 2**31 - 1)),
    ],
)
def test_steps_are_read_as_typed(text: str | None, steps: Steps | None) -> None:
    assert steps_of(text) == steps


@pytest.mark.parametrize("text", ["0:3", "5:3", "a:b", "1:2:3", "-1"])
def test_steps_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match=f"steps is '{text}': give the first and the last"):
        steps_of(text)
