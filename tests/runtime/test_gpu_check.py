"""The check for machines with GPUs: what it prints, what it survives, and the trainings that it chooses."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import gpu_check
from benchmarks.gpu_check import Found, Here
from zerosim_runtime.zero.proof.__main__ import main as prove
from zerosim_runtime.zero.proof.cases import CASES, Training, gpu_trainings_of
from zerosim_runtime.zero.proof.harness import Outcome, outcomes


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(cpu=True, n_ranks=2, until=time.monotonic() + 60, directory=tmp_path)


def _answer(stdout: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, stdout, "")


def test_a_check_that_breaks_is_a_line_of_the_report(here: Here) -> None:
    def check_colours(_: Here) -> Iterator[Found]:
        yield Found("red", "pass", "0 nm off")
        raise KeyError("green")

    assert [*gpu_check._guarded(check_colours, here)] == [
        Found("red", "pass", "0 nm off"),
        Found("colours", "FAIL", "KeyError: 'green'"),
    ]


def test_once_time_is_up_the_rest_is_not_checked(tmp_path: Path) -> None:
    late = Here(cpu=True, n_ranks=2, until=time.monotonic() - 1, directory=tmp_path)

    (line,) = gpu_check._guarded(gpu_check.check_machine, late)

    assert line == Found("machine", "not checked", "the time was up")


def test_what_does_not_end_is_stopped_and_fails(here: Here) -> None:
    def check_sleep(_: Here) -> Iterator[Found]:
        gpu_check._python(["-c", "import time; time.sleep(60)"], 0.5)
        yield Found("sleep", "pass", "")

    (line,) = gpu_check._guarded(check_sleep, here)

    assert (line.check, line.verdict) == ("sleep", "FAIL")
    assert line.figure == "not done after 0 s"


def test_equality_names_what_failed_and_what_was_not_begun(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (
        "pass  2  plain/zero1/float32/adamw    same bits   loss 0.0e+00  parameters 0.0e+00\n"
        "FAIL  2  plain/zero2/float32/adamw    other bits  loss 1.0e-01  parameters 2.0e-01\n"
        "2 ranks: 1 of 2 trainings pass, 3 not begun: time was up, 75 s\n"
    )
    monkeypatch.setattr(gpu_check, "_python", lambda words, _: _answer(rows, "2" in words))

    found = [*gpu_check.check_equality(here)][:4]

    assert [(line.check.strip(), line.verdict) for line in found] == [
        ("ZeRO library = DDP, 2 ranks", "FAIL"),
        ("plain/zero2/float32/adamw", "FAIL"),
        ("with the same bits, 2 ranks", "seen"),
        ("the other trainings, 2 ranks", "not checked"),
    ]
    assert found[2].figure == "1 of 2"


def test_the_report_counts_its_lines(here: Here) -> None:
    found = [Found("a", "pass", "1"), Found("b", "not checked", "needs a GPU")]

    assert gpu_check._report(found, here) == (
        "# GPU check\n\n2 ranks on gloo: 1 pass, 0 FAIL, 1 not checked.\n\n"
        "| check | verdict | figure |\n|---|---|---|\n"
        "| a | pass | 1 |\n| b | not checked | needs a GPU |\n"
    )


def test_gpus_are_tried_with_every_case_and_only_with_what_nccl_has() -> None:
    trainings = gpu_trainings_of(1)

    assert {training.case for training in trainings} == {*CASES}
    assert not [training for training in trainings if "a2a" in training.mode]
    assert {training.dtype for training in trainings} == {"float64", "bfloat16"}
    saved = [training.save for training in trainings if training.save]
    assert {training.load for training in trainings if training.load} == {*saved}


def test_on_a_gpu_float64_must_be_near_and_bits_need_not_be_equal() -> None:
    def outcome(device: str, error: float) -> Outcome:
        training = Training("plain", "zero1", "float64")
        return Outcome(training, 1, error, 0.0, bitwise=False, device=device)

    assert outcome("cuda", 1e-12).equal
    assert not outcome("cuda", 1e-6).equal
    narrow = Training("plain", "zero1", "bfloat16", "sgd", bar=1e-2)
    assert Outcome(narrow, 1, 1e-3, 1e-3, bitwise=False, device="cuda").equal
    assert not Outcome(narrow, 1, 1e-3, 1e-3, bitwise=False).equal


def test_a_gpu_a_rank_is_asked_for_where_there_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)

    assert prove(["--device", "cuda", "--ranks", "2"]) == 2
    assert capsys.readouterr().err == (
        "zerosim: 2 ranks need a GPU each, here are 1: give fewer --ranks\n"
    )


@pytest.mark.runtime
def test_no_job_begins_once_time_is_up(tmp_path: Path) -> None:
    """One launch: the trainings for GPUs, on a CPU, the first of them."""
    trainings = gpu_trainings_of(1)

    found = outcomes(trainings, 1, tmp_path, print, seconds=4.0)

    assert 0 < len(found) < len(trainings)
    assert all(outcome.passed for outcome in found), found
