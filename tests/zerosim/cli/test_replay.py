"""`zerosim replay`, as people type it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import zerosim
from zerosim.cli import run

LESSON = str(Path(zerosim.__file__).parent / "examples" / "lesson-zero3")


def test_a_run_is_replayed_on_a_slower_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", LESSON, "--set", "cluster.intra_busbw=5e8", "--json"]) == 0

    answer = orjson.loads(capsys.readouterr().out)

    assert answer["source_step_ns"] == 23_310_686
    assert answer["step_ns"] > answer["source_step_ns"]
    assert answer["collectives_kept"] == 0
    assert answer["matched_share"] == 1.0


def test_without_a_change_a_simulated_run_takes_what_it_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["replay", LESSON]) == 0

    assert "in all         23.3 ms (1.000 of 23.3 ms before)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--set", "layers=4"], "--set changes the workload, and a replay does what the run did"),
        (["--set", "world_size=8"], "world_size is 8, the run has 3 ranks"),
        (["--real", "--speed", "2"], "--speed 2 beside --real: real ranks sleep as long"),
        (["-o", LESSON], "is the run itself, which would be lost: give another place"),
        (["--speed", "0"], "speed is 0.0: give a number above 0"),
        (["--set", "cluster=dgx-a1000"], "no cluster 'dgx-a1000': did you mean 'dgx-a100'"),
    ],
)
def test_what_a_replay_cannot_change_is_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", LESSON, *words]) == 2
    assert sentence in capsys.readouterr().err
