"""The verb `lab`: what cannot be is refused in a sentence before anything starts; `--check` looks at the machine."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from zerosim.cli import run as run_command


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no scenario is given: name a preset, a TOML file or a run"),
        (["lesson-zero3", "--inter", "100Mbps"], "--inter is '100Mbps': give bits a second, as in"),
        (["lesson-zero3", "--intra", "x"], "--intra is 'x': give bits a second, as in 200Mbit"),
        (["lesson-zero3", "--latency", "5"], "--latency is '5': give a time, as in 50us or 1ms"),
        (["lesson-zero3", "--nodes", "99"], "--nodes is 99: give 1 to 64"),
        (["lesson-zero4"], "lesson-zero4"),
        (["lesson-zero3", "--set", "schedule=fsdp1"], "real ranks cannot carry it out"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["lab", *words, "-o", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_check_says_what_the_machine_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["lab", "--check", "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert found["cores"] >= 1
    assert found["backend"] in ("gloo", "nccl")
    assert found["lab"] in ("root", "user namespace", "paced")
    assert (found["why"] is None) == (found["lab"] != "paced")
    assert run_command(["lab", "--check"]) == 0
    assert "congestion control" in capsys.readouterr().out
