"""Dropped files: hostile until proven traces; a run at the end, or a sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import InputError
from zerosim.importers.choice import Choice
from zerosim.store import load_run
from zerosim_app.intake import import_upload, safe_name
from zerosim_app.uploads import Announced, Uploads


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


def take(files: dict[str, bytes], library: Path, name: str = "", *, salvage: bool = False) -> str:
    said: list[str] = []
    run_id = sent(files, library, said.append, name, salvage=salvage)
    assert said
    return run_id


def sent(
    files: dict[str, bytes],
    library: Path,
    report: Callable[[str], None],
    name: str = "",
    *,
    salvage: bool = False,
) -> str:
    uploads = Uploads(10**6, 10**7)
    upload = uploads.begin([Announced(*each) for each in ((n, len(b)) for n, b in files.items())])
    for index, body in enumerate(files.values()):
        uploads.append(upload, index, 0, BytesIO(body), len(body))
    return import_upload(uploads, upload, name, library, report, Choice(salvage=salvage))


def test_traces_of_two_ranks_become_one_run(tmp_path: Path) -> None:
    files = {f"rank{r}.pt.trace.json.gz": gzip.compress(kineto(r)) for r in (0, 1)}
    run_id = take(files, tmp_path / "runs")
    assert run_id == "rank0"
    trace = load_run(tmp_path / "runs" / "rank0")
    assert trace.ranks == (0, 1)
    assert trace.meta.source == "imported"
    assert trace.meta.name == "rank0"


def test_two_files_of_one_name_are_both_read_under_it(tmp_path: Path) -> None:
    files = {f"run/rank{rank}/trace.json": kineto(rank) for rank in (0, 1)}
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
    sent({"a.json": kineto(0)}, tmp_path, said.append)
    assert said[:2] == ["reading a.json", "reading a.json, 0%"]
    assert said[-1].startswith("storing ")


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    assert take({"a.json": kineto(0)}, tmp_path, name="run") == "run"
    assert take({"a.json": kineto(0)}, tmp_path, name="run") == "run-2"
    assert take({"a.json": kineto(0)}, tmp_path, name="run") == "run-3"


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"hello", b'{"traceEvents": [{"ph"'])
def test_what_is_no_trace_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError):
        take({"x.json": content}, tmp_path)
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


def test_a_folder_leaves_out_what_is_no_trace_and_says_so(tmp_path: Path) -> None:
    files = {"run/notes.txt": b"hello", "run/a.json": kineto(0)}
    assert take(files, tmp_path) == "run"
    warnings = load_run(tmp_path / "run").meta.quality.warnings
    assert any(w.startswith("'notes.txt' left out: it is text") for w in warnings)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"my notes.txt": b"hello"}, "'my-notes.txt' is text without a line of a known log"),
        ({"run/notes.txt": b"hello"}, "no trace in 'run' ('notes.txt' left out: it is text"),
        ({"run/a/notes.txt": b"hello"}, "no trace in 'run' ('notes.txt' left out: it is text"),
    ],
)
def test_errors_name_files_as_their_user_knows_them(
    tmp_path: Path, files: dict[str, bytes], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        take(files, tmp_path)
    assert str(refused.value).startswith(sentence)


def test_a_file_that_ends_early_is_kept_as_far_as_it_is_whole_if_asked(tmp_path: Path) -> None:
    cut = {"a.json": kineto(0)[:-60]}
    told = "by ticking 'Keep what is whole of files that end early'$"
    with pytest.raises(InputError, match=told):
        take(cut, tmp_path)
    trace = load_run(tmp_path / take(cut, tmp_path, salvage=True))
    assert trace.meta.quality.lost == 1


def test_nothing_of_an_upload_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    take({"a.json": kineto(0)}, tmp_path)
    with pytest.raises(InputError):
        take({"a.json": b"hello"}, tmp_path)
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()] == []
