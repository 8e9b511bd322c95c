"""Why a program failed: the rank, its collective, its number; or what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim_runtime.tracing.tracer import Tracer, open_tracer
from zerosim_runtime.tracing.verdict import describe, incomplete

TORCHRUN = """
E1130 torch/api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 17319) of binary: python
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 17319)
"""


def rank(directory: Path, number: int) -> Tracer:
    header = {"rank": number, "world_size": 2, "unix_ns": 1, "launch": "one"}
    tracer = open_tracer(directory, number, header)
    tracer.ring.end(tracer.ring.issue("world", 0, "all_reduce", "0", 5, 10), 6)
    return tracer


def say(directory: Path, output: str) -> None:
    (directory / "program.log").write_text(output)


def test_who_raised_is_named_with_what_and_its_last_collective(tmp_path: Path) -> None:
    rank(tmp_path, 0).close("terminated")
    rank(tmp_path, 1).close("failed", "ValueError: boom")
    assert describe(tmp_path, 1, "train") == (
        "rank 1 failed (ValueError: boom) after 'AR0' (seq 0 of group 'world')"
    )


def test_who_was_killed_is_named_with_what_it_was_in(tmp_path: Path) -> None:
    rank(tmp_path, 0).close("terminated")
    rank(tmp_path, 1).ring.issue("world", 1, "all_gather", "blocks.0", 7, 10)
    say(tmp_path, TORCHRUN)
    assert describe(tmp_path, 1, "train") == (
        "rank 1 was killed by SIGKILL in 'AGblocks.0' (seq 1 of group 'world')"
    )


def test_ranks_that_took_one_collective_for_two_are_both_named(tmp_path: Path) -> None:
    rank(tmp_path, 0).ring.issue("world", 1, "all_gather", "blocks.0", 7, 10)
    rank(tmp_path, 1).ring.issue("world", 1, "reduce_scatter", "blocks.1", 7, 10)
    assert describe(tmp_path, 1, "train") == (
        "ranks disagree: rank 0 issued 'AGblocks.0' and rank 1 'RSblocks.1' "
        "as seq 1 of group 'world'"
    )


def test_without_ranks_the_last_error_of_the_program_is_told(tmp_path: Path) -> None:
    say(tmp_path, "Traceback:\n  File x\nSyntaxError: invalid syntax\nx.y.ChildFailedError: \n")
    assert describe(tmp_path, 1, "train") == (
        "'train' ended with exit code 1 before its process group was made "
        "(SyntaxError: invalid syntax)"
    )


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("finished", None),
        ("terminated", "rank 1 was terminated after 'AR0' (seq 0 of group 'world')"),
    ],
)
def test_what_is_incomplete_is_said_without_a_launcher(
    tmp_path: Path, status: str, sentence: str | None
) -> None:
    rank(tmp_path, 0).close("finished")
    rank(tmp_path, 1).close(status)
    assert incomplete(tmp_path) == sentence


def test_a_rank_without_a_last_word_is_incomplete(tmp_path: Path) -> None:
    rank(tmp_path, 0).close("finished")
    rank(tmp_path, 1).file.close()
    assert incomplete(tmp_path) == (
        "rank 1 left no last word, after 'AR0' (seq 0 of group 'world')"
    )
