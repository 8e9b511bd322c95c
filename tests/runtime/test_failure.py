"""The message names the rank that failed first, how, and its last op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.written import HEADER, lesson, write_lines
from zerosim_runtime.failure import describe_failure

LOG = "E1130 failed (exitcode: {code}) local_rank: 1 (pid: 12) of binary: python\n"


ALL = """
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 11)
[1]:
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 12)
"""


def _leave(directory: Path, log: str, *ends: dict[str, Any] | None, last_op: int = 8) -> str:
    (directory / "torchrun.log").write_text(log)
    for rank, end in enumerate(ends):
        last = [] if end is None else [{"op": None, "message": ""} | end]
        write_lines(directory, rank, [{"header": HEADER}, *last], last_op=last_op)
    return describe_failure(directory, lesson())


@pytest.mark.parametrize("log", [LOG, ALL])
def test_a_killed_rank_is_named_with_its_signal_and_last_op(tmp_path: Path, log: str) -> None:
    message = _leave(tmp_path, log.format(code=-9), {"status": "peer_lost", "time": 5}, None)
    assert message == "rank 1 was killed by SIGKILL in 'RS2' of step 1"


def test_a_rank_that_broke_by_itself_is_named_with_its_reason(tmp_path: Path) -> None:
    message = _leave(
        tmp_path,
        LOG.format(code=1),
        {"status": "failed", "message": "ValueError: no luck", "time": 5},
        {"status": "peer_lost", "time": 4},
    )
    assert message == "rank 0 failed (ValueError: no luck) in 'RS2' of step 1"


def test_of_several_that_broke_the_first_is_named(tmp_path: Path) -> None:
    message = _leave(tmp_path, "", {"status": "failed", "time": 5}, {"status": "failed", "time": 4})
    assert message.startswith("rank 1 failed")


def test_the_op_may_be_of_a_later_step(tmp_path: Path) -> None:
    message = _leave(tmp_path, "", None, {"status": "terminated", "time": 1}, last_op=18)
    assert message == "rank 0 died in 'AG0' of step 2"


def test_a_rank_that_died_before_its_first_op_says_so(tmp_path: Path) -> None:
    message = _leave(
        tmp_path, LOG.format(code=-11), {"status": "peer_lost", "time": 1}, None, last_op=-1
    )
    assert message == "rank 1 was killed by SIGSEGV before its first op"


def test_ranks_that_all_lost_each_other_are_told_by_the_first(tmp_path: Path) -> None:
    lost = {"status": "peer_lost", "message": "'RS2' failed (timed out)"}
    message = _leave(tmp_path, "", lost | {"time": 9}, lost | {"time": 8})
    assert message == "rank 1 lost its peers ('RS2' failed (timed out)) in 'RS2' of step 1"


def test_a_rank_that_was_told_to_stop_before_the_others_lost_it_is_named(tmp_path: Path) -> None:
    lost = {"status": "peer_lost", "message": "'RS2' failed", "time": 9}
    message = _leave(tmp_path, "", lost, {"status": "terminated", "time": 8})
    assert message == "rank 1 was told to stop in 'RS2' of step 1"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("Traceback\nImportError: libcudart.so\n", "ImportError: libcudart.so"),
        (
            "    raise RuntimeFailedError(\nzerosim.errors.RuntimeFailedError: nccl needs 2 GPUs\n",
            "RuntimeFailedError: nccl needs 2 GPUs",
        ),
        ("[rank1]: torch.cuda.OutOfMemoryError: full\n", "OutOfMemoryError: full"),
        ("", "torchrun said nothing"),
    ],
)
def test_ranks_that_never_began_are_told_by_torchrun(tmp_path: Path, log: str, reason: str) -> None:
    assert _leave(tmp_path, log) == f"the ranks did not start ({reason})"
