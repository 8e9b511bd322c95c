"""What is started for the words after `--`, and what of them is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from zerosim.cli.programs import is_program
from zerosim.errors import InputError
from zerosim_runtime.tracing.command import command_of, name_of, told


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.touch()
    return str(path)


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["train.py"], True),
        (["-m", "package.train"], True),
        (["torchrun", "train.py"], True),
        (["torchrun"], True),
        (["lesson-zero3"], False),
        (["my.toml"], False),
        (["runs/first"], False),
    ],
)
def test_one_word_is_a_scenario_unless_it_is_a_script(words: list[str], program: bool) -> None:
    assert is_program(words) is program


def test_a_script_is_started_by_torchrun(script: str) -> None:
    command = command_of([script, "--lr", "3e-4"], 3)
    assert command[:3] == [sys.executable, "-m", "torch.distributed.run"]
    assert "--nproc-per-node=3" in command
    assert command[-3:] == [script, "--lr", "3e-4"]


def test_a_module_is_started_by_torchrun() -> None:
    assert command_of(["-m", "package.train"], 2)[-3:] == [sys.executable, "-m", "package.train"]


def test_a_command_is_started_as_it_is() -> None:
    assert command_of(["sh", "-c", "true"], 2) == ["sh", "-c", "true"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.py"], "no script 'absent.py': give a file that is there"),
        (["no-such-program-at-all", "x"], "no program 'no-such-program-at-all': give a script"),
        (["-m"], "-m names no module: give one"),
    ],
)
def test_what_is_not_there_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        command_of(words, 2)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["a/train.py", "x"], "train"),
        (["torchrun", "--nproc-per-node=2", "a/pretrain.py"], "pretrain"),
        (["-m", "package.train"], "train"),
        (["torchrun", "-m", "package.finetune", "x"], "finetune"),
        (["bin/launch", "x"], "launch"),
    ],
)
def test_a_run_is_called_after_its_script(words: list[str], name: str) -> None:
    assert name_of(words) == name


def test_secrets_and_paths_from_elsewhere_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        *("train.py", "--api-key", "abc", "--hf_token=abc", "PASSWORD=abc", "--lr", "3e-4"),
        *("--data=/home/me/secret/data.bin", str(tmp_path / "out"), "/opt/models/x"),
    ]
    assert told(words) == [
        *("train.py", "--api-key", "***", "--hf_token=***", "PASSWORD=***", "--lr", "3e-4"),
        *("--data=data.bin", "out", "x"),
    ]
