"""Dropped files: hostile until proven traces; a run at the end, or a sentence."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import InputError
from zerosim.store import load_run
from zerosim_app.intake import Dropped, import_dropped, safe_name

LIMIT = 10**6


def kineto(rank: int) -> bytes:
    events = [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 100.0, "dur": 50.0,
         "args": {"stream": 7, "correlation": 1}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
         "ts": 90.0, "dur": 5.0, "args": {"correlation": 1}},
    ]  # fmt: skip
    record = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "traceEvents": events,
    }
    return json.dumps(record).encode()


def dropped(name: str, content: bytes) -> Dropped:
    return Dropped(name, "data:application/json;base64," + base64.b64encode(content).decode())


def take(files: list[Dropped], library: Path, name: str = "", limit: int = LIMIT) -> str:
    said: list[str] = []
    run_id = import_dropped(files, name, library, limit, said.append)
    assert said
    return run_id


def test_traces_of_two_ranks_become_one_run(tmp_path: Path) -> None:
    files = [dropped(f"rank{r}.pt.trace.json.gz", gzip.compress(kineto(r))) for r in (0, 1)]
    run_id = take(files, tmp_path / "runs")
    assert run_id == "rank0"
    trace = load_run(tmp_path / "runs" / "rank0")
    assert trace.ranks == (0, 1)
    assert trace.meta.source == "imported"
    assert trace.meta.name == "rank0"


def test_two_files_of_one_name_are_both_read_under_it(tmp_path: Path) -> None:
    files = [dropped("trace.json", kineto(rank)) for rank in (0, 1)]
    trace = load_run(tmp_path / take(files, tmp_path))
    assert trace.ranks == (0, 1)
    assert not any("0000" in warning for warning in trace.meta.quality.warnings)


@pytest.mark.parametrize(
    ("name", "run"),
    [("fsdp.tar.gz", "fsdp"), ("rank0.et", "rank0"), ("a.sqlite", "a"), ("nccl.jsonl", "nccl")],
)
def test_a_run_bears_the_name_of_its_file_without_the_ending(name: str, run: str) -> None:
    assert safe_name(name) == run


def test_progress_names_the_files(tmp_path: Path) -> None:
    said: list[str] = []
    import_dropped([dropped("a.json", kineto(0))], "", tmp_path, LIMIT, said.append)
    assert said[:2] == ["unpacking 1 file", "reading a.json"]
    assert said[2] == "reading a.json, 0%"
    assert said[-1].startswith("storing ")


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    assert take([dropped("a.json", kineto(0))], tmp_path, name="run") == "run"
    assert take([dropped("a.json", kineto(0))], tmp_path, name="run") == "run-2"
    assert take([dropped("a.json", kineto(0))], tmp_path, name="run") == "run-3"


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (Dropped("x", "data:;base64,!!!"), "'x' arrived damaged"),
        (Dropped("x", "hello"), "'x' did not arrive as a file"),
        (dropped("x.json", b"x" * 3000), "'x.json' is over 1 kB"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path: Path, file: Dropped, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        take([file], tmp_path, limit=1000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"hello", b'{"traceEvents": [{"ph"'])
def test_what_is_no_trace_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError):
        take([dropped("x.json", content)], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given_name", "expected"),
    [
        ("rank0.pt.trace.json.gz", "rank0"),
        ("../../etc/passwd", "passwd"),
        ("C:\\traces\\a b.json", "a-b"),
        (".hidden", "hidden"),
        ("///", "imported"),
        ("日本", "imported"),
        ("a" * 200, "a" * 80),
    ],
)
def test_names_are_made_safe(given_name: str, expected: str) -> None:
    assert safe_name(given_name) == expected


@given(st.text())
def test_a_safe_name_stays_in_the_library(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert not set(safe) & set("/\\\0")
    assert not safe.startswith(".")
