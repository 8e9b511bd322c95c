"""`zerosim import` says how good the files are before it says what they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from zerosim.cli import run

QUIRKS = Path(__file__).parents[2] / "golden" / "quirks"
Text = Callable[..., tuple[int, str, str]]


@pytest.fixture
def imported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Text:
    """Runs the command; returns exit code, stdout and stderr."""

    def run_it(name: str, *options: str) -> tuple[int, str, str]:
        code = run(["import", str(QUIRKS / name), "-o", str(tmp_path / "run"), *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_it


def answer(imported: Text, name: str, *options: str) -> Any:
    code, out, _ = imported(name, *options, "--json")
    assert code == 0
    return orjson.loads(out)


def test_the_report_stands_before_the_figures(imported: Text) -> None:
    code, out, _ = imported("08_control_char.json")
    assert code == 0
    assert out.splitlines()[:7] == [
        "events                32 read, 1 repaired, 0 skipped, 0 lost",
        "ranks                 0; missing: 1-3",
        "steps                 5-6",
        "collectives           4 of known size, 0 of unknown",
        "before the recording  0 ops launched",
        "clock                 one rank alone",
        "odd                   '08_control_char.json' at byte 946: NaN, control or half characters: replaced or kept as text",
    ]
    lines = [line.split("  ")[0] for line in out.splitlines()]
    assert lines.index("warning") < lines.index("run") < lines.index("exposed")


def test_the_report_is_in_the_json_too(imported: Text) -> None:
    report = answer(imported, "32_spillover_kernel.json")["report"]
    assert report == {
        "events": 33,
        "repaired": 0,
        "skipped": 0,
        "lost": 0,
        "before_window": 1,
        "unsized": 1,
        "ranks_present": [[0, 0]],
        "ranks_missing": [[1, 3]],
        "steps": [[5, 6]],
        "collectives": {"sized": 4, "unsized": 1},
        "clock": {"aligned": True, "error_ns": None, "offsets_ns": [], "corrected": True},
        "places": [],
        "unknown": [
            "bytes on the wire: the sizes of tensors alone are written",
            "memory: the profiler did not record it (profile_memory)",
        ],
        "warnings": [
            "'32_spillover_kernel.json' has 1 op launched before the recording",
            "'32_spillover_kernel.json' has 1 collective of unknown size",
        ],
    }


def test_strict_refuses_and_writes_nothing(imported: Text, tmp_path: Path) -> None:
    code, out, err = imported("08_control_char.json", "--strict")
    assert (code, out) == (2, "")
    assert err == (
        "zerosim: events: 1 repaired, the first in '08_control_char.json' at byte 946:"
        " import without --strict\n"
    )
    assert not (tmp_path / "run").exists()


def test_salvage_says_what_was_lost(imported: Text) -> None:
    code, _, err = imported("01_truncated.json")
    assert (code, "at byte 6222" in err, "--salvage" in err) == (2, True, True)
    report = answer(imported, "01_truncated.json", "--salvage")["report"]
    assert (report["events"], report["lost"]) == (24, 1)
    assert report["places"] == [
        {"source": "01_truncated.json", "byte": 6222, "what": "the file ends"}
    ]


def test_a_part_of_the_run(imported: Text) -> None:
    found = answer(imported, "15_no_rank.json", "--rank", "3", "--ranks", "3", "--steps", "5")
    assert [rank["rank"] for rank in found["ranks"]] == [3]
    assert found["report"]["steps"] == [[5, 5]]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ranks", "a"], "--ranks 'a' names no ranks: give 0-3,7 or the like"),
        (["--ranks", "5-2"], "--ranks '5-2' names no ranks"),
        (["--ranks", "0-99999999"], "names no ranks"),
        (["--ranks", "7"], "no rank 7 in the files: they are of 0"),
        (["--steps", "8:5"], "--steps '8:5' names no steps: give FIRST:LAST"),
        (["--steps", "1"], "no step 1: the files have 5 to 6"),
        (["--window", "5ms"], "--window '5ms' is no stretch of time"),
        (["--window", ":"], "--window ':' is no stretch of time"),
        (["--window", "5ms:1ms"], "--window '5ms:1ms' is no stretch of time"),
        (["--window", "five:"], "--window begin"),
        (["--window", "5s:"], "nothing ran in that window"),
        (["--only", "all-gather"], "no kind 'all-gather': did you mean 'all_gather'?"),
        (["--rank", "3"], "says itself that it is of rank 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(imported: Text, options: list[str], says: str) -> None:
    code, out, err = imported("00_base.json", *options)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_window_and_kinds(imported: Text) -> None:
    found = answer(imported, "00_base.json", "--window", "0us:1.5s", "--only", "all_gather,other")
    assert {c["kind"] for c in found["ranks"][0]["collectives"]} == {"all_gather"}


def test_names_out_of_files_cannot_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "\x1b[31mred<script>.json"
    path.write_bytes((QUIRKS / "08_control_char.json").read_bytes())
    assert run(["import", str(path), "-o", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert "red<script>.json" in printed.out


def test_a_run_that_is_there_stays_unless_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("runs/00_base", "runs/00_base-2"):
        assert run(["import", str(QUIRKS / "00_base.json")]) == 0
        assert capsys.readouterr().err == f"stored {place}\n"


def test_a_run_is_no_file_to_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine"
    assert run(["import", str(QUIRKS / "00_base.json"), "-o", str(path)]) == 0
    capsys.readouterr()
    assert run(["import", str(path)]) == 2
    said = f"zerosim: '{path}' is a run already: `zerosim show {path}` tells of it\n"
    assert capsys.readouterr().err == said


def test_of_a_run_without_steps_the_whole_is_told_and_the_unknown_in_one_line(
    imported: Text,
) -> None:
    code, out, _ = imported("18_no_profilerstep.json")
    assert code == 0
    lines = dict(line.split("  ", 1) for line in out.splitlines())
    assert "rank 0, the busiest" in lines["whole run"]
    assert "step" not in lines
    assert lines["not known"].strip().startswith("order, step, compute, communication, exposed, ")
