"""`zerosim calibrate`: logs in, a document and what it implies out; nothing half-written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.zerosim.validation.test_nccl_tests import HEADER, NEW, RANKS, ROW
from zerosim.cli import run
from zerosim.hardware.calibration import read_calibration


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    path = tmp_path / "ag.log"
    path.write_text(NEW + RANKS + HEADER + ROW)
    return path


def test_a_log_becomes_a_document_that_is_read_again(
    logged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.toml"
    assert run(["calibrate", "--collectives", str(logged), "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["series"][0]["kind"] == "all_gather"
    assert found["implied"] == {"inter_busbw": pytest.approx(69.9e9, rel=0.01)}
    assert read_calibration(out).collective[0].times == ((4194304, 45e-6),)


def test_what_links_reach_is_said_to_people(
    logged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["calibrate", "--collectives", str(logged), "--source", "the lab"]) == 0
    text = capsys.readouterr().out
    assert "all_gather  4      2      1      69.9 GB/s" in text
    assert "implies  --set cluster.inter_busbw=6.991e+10" in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["calibrate", "x.log"], "or --collectives for logs of nccl-tests"),
        (["calibrate", "--collectives", "nowhere.log"], "cannot read 'nowhere.log'"),
        (["calibrate", "--collectives", "x", "--collective", "gossip"], "no collective 'gossip'"),
        (["calibrate", "--collectives", "/dev/null"], "is not a file"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_place_that_cannot_be_written_is_named(
    logged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "no" / "where.toml"
    assert run(["calibrate", "--collectives", str(logged), "-o", str(out)]) == 2
    assert "there is no directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [logged]
