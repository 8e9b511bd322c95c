"""The registry of exports and its verb: what is written is whole, and what cannot be is said."""

from __future__ import annotations

import os
import re
from pathlib import Path

import orjson
import pytest

from zerosim.cli import run
from zerosim.errors import InputError, UnknownNameError
from zerosim.exporters import EXPORTERS, Exporter, export
from zerosim.registry import Registry
from zerosim.store import save_run
from zerosim.trace import Trace


@pytest.fixture
def stored(lesson: Trace, tmp_path: Path) -> str:
    return str(save_run(lesson, tmp_path / "run"))


@pytest.mark.parametrize("to", list(EXPORTERS))
def test_every_format_writes_what_its_name_says_and_leaves_nothing_beside_it(
    to: str, stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "exported"
    assert run(["export", stored, "--to", to, "-o", str(out), "--json"]) == 0
    answer = orjson.loads(capsys.readouterr().out)
    assert answer == {"path": str(out), "format": to, "spans": 108}
    assert [path.name for path in out.parent.iterdir()] == ["exported"]


@pytest.mark.parametrize("to", list(EXPORTERS))
def test_the_same_run_is_the_same_bytes(to: str, lesson: Trace, tmp_path: Path) -> None:
    for name in ("a", "b"):
        export(lesson, to, tmp_path / name)
    contents = [
        [p.read_bytes() for p in sorted([tmp_path / n, *(tmp_path / n).rglob("*")]) if p.is_file()]
        for n in ("a", "b")
    ]
    assert contents[0]
    assert contents[0] == contents[1]


@pytest.mark.parametrize("to", list(EXPORTERS))
def test_a_file_in_the_way_of_the_directory_is_named(
    to: str, lesson: Trace, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot write"):
        export(lesson, to, tmp_path / "file" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("to", list(EXPORTERS))
def test_a_directory_with_things_in_it_is_left_alone(
    to: str, lesson: Trace, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="a directory that is not empty"):
        export(lesson, to, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("to", list(EXPORTERS))
def test_a_full_disk_leaves_what_stood_there(
    to: str, lesson: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    export(lesson, "csv", tmp_path / "out.json")
    before = (tmp_path / "out.json").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        export(lesson, to, tmp_path / "out.json")
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert (tmp_path / "out.json").read_bytes() == before


def test_every_format_has_its_heading_in_the_docs() -> None:
    page = Path(__file__).parents[3] / "docs" / "exporters.md"
    assert set(EXPORTERS) <= set(re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE))


def test_an_unknown_format_is_refused_with_those_there_are(
    stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", stored, "--to", "chrom", "-o", str(tmp_path / "x")]) == 2
    assert "no export format 'chrom': did you mean 'chrome'?" in capsys.readouterr().err


def test_a_run_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(tmp_path / "no"), "--to", "csv", "-o", str(tmp_path / "x")]) == 2
    assert "no run at" in capsys.readouterr().err


def test_a_new_format_is_one_line_of_the_registry() -> None:
    plain = Registry("export format", {"txt": Exporter("text", lambda *_: None)})
    assert plain["txt"].says == "text"
    with pytest.raises(UnknownNameError, match="known: txt"):
        plain["csv"]


@pytest.mark.parametrize("to", list(EXPORTERS))
def test_a_pipe_in_the_way_is_left_alone(to: str, lesson: Trace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe' is no file that can be replaced"):
        export(lesson, to, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
