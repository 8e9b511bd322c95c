"""Bad input on the command line: exit code 2, one sentence on stderr, nothing on stdout, nothing written."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosim.cli import run
from zerosim.header import meta_to_dict
from zerosim.scenario import load_scenario
from zerosim.scenario import run as simulate
from zerosim.store import save_run

PEER = str(Path(__file__).parents[2] / "golden" / "peer" / "ring_8_4.json")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("simulat lesson-zero3", "no command 'simulat': did you mean 'simulate'?"),
        ("simulate lesson-zero4", "no scenario preset 'lesson-zero4': did you mean 'lesson-zero"),
        ("simulate lesson-zero3 --set layres=3", "no field 'layres': did you mean 'layers'?"),
        ("simulate lesson-zero3 --set layers=0", "workload.layers is 0: give at least 1"),
        ("simulate lesson-zero3 --set intra_busbw=-1", "cluster.intra_busbw is -1.0: give a"),
        ("simulate lesson-zero3 --set intra_busbw=nan", "cluster.intra_busbw is nan: give a"),
        ("simulate lesson-zero3 --set schedule=zero4", "no schedule 'zero4': did you mean"),
        ("simulate lesson-zero3 --set engine=simpi", "no engine 'simpi': did you mean 'simpy'?"),
        ("simulate lesson-zero3 --set layers", "--set layers: write it as section.field=value"),
        ("simulate lesson-zero3 --jsn", "No such option: --jsn"),
        ("simulate", "Missing argument 'SCENARIO'"),
        ("simulate absent.toml", "no scenario file 'absent.toml'"),
        ("show absent", "no run at 'absent'"),
        ("compare absent absent", "no run at 'absent'"),
        ("list presents", "no list 'presents': did you mean 'presets'?"),
        ("parity absent.json", "cannot read peer program 'absent.json'"),
        ("runs delete ../x", "'../x' cannot name a run"),
        ("runs rename x y", "no run 'x' in 'runs'"),
        ("trace lesson-zero3 --nproc 0", "Invalid value for '--nproc'"),
        ("trace lesson-zero3 --dtype=", "no dtype ''"),
        ("trace lesson-fsdp1", "schedule is 'fsdp1', and real ranks cannot carry it out"),
        ("trace lesson-zero3 --backend mpi", "no backend 'mpi'"),
        ("trace lesson-zero3 --kineto", "--kineto would change nothing of a scenario"),
        (
            "trace --rss --dtype float16 -- x.py",
            "--dtype and --rss would change nothing of a program",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"zerosim: {sentence}")
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "[workload]\nlayer = 3\n",
        "[workload]\nlayers = 0\n",
        "[cluster]\ninter_busbw = -2.0\n",
        "[cluster]\nworld_size = nan\n",
        "[machine]\n",
        "[workload\n",
    ],
)
def test_a_wrong_toml_file_writes_no_run(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text(text)
    assert run(["simulate", str(tmp_path / "mine.toml"), "-o", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith("zerosim: ")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_scenarios_name_cannot_lead_a_run_out_of_the_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('name = "../../elsewhere"\n')
    assert run(["trace", "mine.toml"]) == 2
    assert "'../../elsewhere-2-ranks' cannot name a run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_run_is_not_stored_over_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").write_text("mine")
    assert run(["simulate", "lesson-zero3", "-o", str(tmp_path / "notes")]) == 2
    assert "exists and is not a run" in capsys.readouterr().err
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", pickle.dumps({"a": 1}), b"\xff" * 99])
@pytest.mark.parametrize("name", ["run.json", "spans.parquet", "samples.parquet"])
def test_a_damaged_run_is_refused_by_show(
    name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_run(simulate(load_scenario("lesson-zero3")), tmp_path / "run")
    (path / name).write_bytes(content)
    assert run(["show", str(path), "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1


HEADER = meta_to_dict(simulate(load_scenario("lesson-zero3")).meta)
JUNK = [None, "x", -1, 0, [], {}, 1.5, True, [1], {"a": 1}, [["x"]], 2**62, [[0, 2**62]]]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a nest of dictionaries and lists (two entries of each list)."""
    keys = value if isinstance(value, dict) else range(min(2, len(value)))
    for key in keys:
        yield (*place, key)
        if isinstance(value[key], dict | list | tuple):
            yield from places(value[key], (*place, key))


@given(st.sampled_from(list(places(orjson.loads(orjson.dumps(HEADER))))), st.sampled_from(JUNK))
@settings(max_examples=200)
def test_a_header_with_junk_in_it_is_shown_or_refused_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], junk: Any
) -> None:
    record = orjson.loads(orjson.dumps(HEADER))
    target = record
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = copy.deepcopy(junk)
    path = tmp_path_factory.getbasetemp() / "junk"
    if not path.exists():
        save_run(simulate(load_scenario("lesson-zero3")), path)
    (path / "run.json").write_bytes(orjson.dumps(record))
    assert run(["show", str(path), "--json"]) in (0, 2)


def test_a_long_wrong_word_makes_no_long_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "lesson-zero3", "--set", f"layers={'9' * 5000}"]) == 2
    printed = capsys.readouterr().err
    assert len(printed) < 1000
    assert printed.startswith("zerosim: workload.layers is 999")
    assert printed.endswith("give a finite number\n")


def test_names_of_strangers_do_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\n\x9b31m"
    trace = simulate(load_scenario("lesson-zero3"))
    path = save_run(replace(trace, meta=replace(trace.meta, name=evil)), tmp_path / "run")
    assert run(["show", str(path)]) == 0
    assert run(["compare", str(path), str(path)]) == 0
    assert run(["show", str(tmp_path / evil)]) == 2
    printed = capsys.readouterr()
    assert not set(evil) & set(printed.out + printed.err) - set("]0;owned[2J31m\n")
    assert printed.err.count("\n") == 1


def test_a_library_is_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").write_text("mine")
    assert run(["list", "runs", "--library", str(tmp_path / "notes"), "--json"]) == 2
    assert capsys.readouterr().err.endswith("is no directory of runs: give one with --library\n")


def test_a_run_whose_name_is_no_text_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(simulate(load_scenario("lesson-zero3")), tmp_path / "x\udcff")
    assert run(["list", "runs", "--library", str(tmp_path), "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["runs"][0]["name"] == "x?"


def test_a_directory_for_a_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["parity", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_one_wrong_file_of_several_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["parity", PEER, "absent.json", "--json"]) == 2
    assert capsys.readouterr().out == ""
