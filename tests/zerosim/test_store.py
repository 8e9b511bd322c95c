"""The run library: whole or not at all, and closed to whatever is not a run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import orjson
import polars as pl
import pytest

from zerosim.errors import RunError
from zerosim.scenario import load_scenario, run
from zerosim.store import (
    check_place,
    list_runs,
    load_meta,
    load_run,
    save_run,
)
from zerosim.trace import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return run(load_scenario("lesson-zero3"))


@pytest.fixture
def stored(trace: Trace, tmp_path: Path) -> Path:
    return save_run(trace, tmp_path / "lesson")


def test_a_run_comes_back_as_it_was_stored(trace: Trace, stored: Path) -> None:
    again = load_run(stored)
    assert again.spans.equals(trace.spans)
    assert again.samples.equals(trace.samples)
    assert again.meta == trace.meta


def test_a_run_is_one_directory_of_four_files(stored: Path) -> None:
    assert sorted(p.name for p in stored.iterdir()) == [
        "provenance.json",
        "run.json",
        "samples.parquet",
        "spans.parquet",
    ]


def test_provenance_is_kept_and_is_no_part_of_a_runs_identity(trace: Trace, tmp_path: Path) -> None:
    dated = Trace(trace.spans, trace.samples, trace.meta, {"host": "here"})
    path = save_run(dated, tmp_path / "dated")
    assert load_run(path).provenance["host"] == "here"
    plain = save_run(trace, tmp_path / "plain")
    assert (path / "run.json").read_bytes() == (plain / "run.json").read_bytes()


def test_names_that_are_no_text_are_stored_as_text(trace: Trace, tmp_path: Path) -> None:
    named = replace(trace, meta=replace(trace.meta, name="x\udcff"), provenance={"f": "y\udcff"})
    again = load_run(save_run(named, tmp_path / "x\udcff"))
    assert (again.meta, again.provenance["f"]) == (replace(trace.meta, name="x?"), "y?")


def test_storing_again_replaces_the_run(stored: Path) -> None:
    other = run(load_scenario("lesson-ddp"))
    save_run(other, stored)
    assert load_run(stored).meta.name == "lesson-ddp"
    assert [p.name for p in stored.parent.iterdir()] == ["lesson"]


def test_a_directory_that_is_no_run_is_never_overwritten(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one").write_text("precious")
    with pytest.raises(RunError, match="exists and is not a run: choose another name"):
        save_run(trace, tmp_path / "photos")
    assert (tmp_path / "photos" / "one").read_text() == "precious"


KILLED = """
    import os, sys
    from pathlib import Path
    from zerosim import disk, store
    from zerosim.scenario import load_scenario, run
    {patch}
    store.save_run(run(load_scenario("lesson-ddp")), Path(sys.argv[1]))
"""
BEFORE_RENAME = "disk.put_in_place = lambda *_: os._exit(9)"
BETWEEN_FILES = "store._write_parquet = lambda *_: os._exit(9)"


def killed(patch: str, path: Path) -> None:
    """Store a run in a process that dies on the way."""
    program = textwrap.dedent(KILLED).format(patch=patch)
    root = str(Path(__file__).parents[2])
    finished = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "PYTHONPATH": root},
        check=False,
    )
    assert finished.returncode == 9


@pytest.mark.parametrize("patch", [BEFORE_RENAME, BETWEEN_FILES])
def test_a_writer_killed_on_the_way_leaves_no_half_run(patch: str, tmp_path: Path) -> None:
    killed(patch, tmp_path / "lesson")
    assert not (tmp_path / "lesson").exists()
    assert list_runs(tmp_path) == ()


def test_a_writer_killed_on_the_way_leaves_the_older_run_whole(trace: Trace, stored: Path) -> None:
    killed(BEFORE_RENAME, stored)
    assert load_run(stored).meta == trace.meta


def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(RunError, match=r"cannot write run '.*lesson': No space left on device"):
        save_run(trace, tmp_path / "lesson")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_not_grow_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    program = """
        import resource, signal, sys
        from pathlib import Path
        from zerosim.scenario import load_scenario, run
        from zerosim.store import RunError, save_run
        trace = run(load_scenario("lesson-zero3"))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            save_run(trace, Path(sys.argv[1]))
        except RunError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "lesson")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"cannot write run '{tmp_path / 'lesson'}': File too large")
    assert list(tmp_path.iterdir()) == []


def test_a_place_is_checked_before_there_is_anything_to_store(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_place(stored)
    check_place(tmp_path / "new" / "run")
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("notes", "dangling"):
        with pytest.raises(RunError, match=rf"'.*{name}' exists and is not a run"):
            check_place(tmp_path / name)
    with pytest.raises(RunError, match=r"'.*notes' is no directory that you may write to; choose"):
        check_place(tmp_path / "notes" / "run")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RunError, match=r"cannot write run '.*run': .* that you may write to"):
        check_place(tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_a_newer_run_is_refused_with_a_sentence(stored: Path) -> None:
    record = orjson.loads((stored / "run.json").read_bytes())
    (stored / "run.json").write_bytes(orjson.dumps(record | {"format_version": 2}))
    with pytest.raises(RunError, match="has format version 2, newer than 1: update zerosim"):
        load_run(stored)


@pytest.mark.parametrize("version", [None, 0, -1, "1", 1.5])
def test_a_run_of_no_version_is_refused(stored: Path, version: object) -> None:
    record = orjson.loads((stored / "run.json").read_bytes())
    (stored / "run.json").write_bytes(orjson.dumps(record | {"format_version": version}))
    with pytest.raises(RunError, match=r"has format version .*: make or import it again"):
        load_meta(stored)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"null", b'{"format_version": 1}', b"\xff\xfe", pickle.dumps({"a": 1})],
)
def test_a_damaged_header_is_refused(stored: Path, content: bytes) -> None:
    (stored / "run.json").write_bytes(content)
    with pytest.raises(RunError):
        load_run(stored)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 99, pickle.dumps([1, 2])])
@pytest.mark.parametrize("name", ["spans.parquet", "samples.parquet"])
def test_a_damaged_table_is_refused(stored: Path, name: str, content: bytes) -> None:
    (stored / name).write_bytes(content)
    with pytest.raises(RunError, match=r"is damaged .*: make or import it again"):
        load_run(stored)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_a_truncated_table_is_refused(stored: Path, keep: float) -> None:
    content = (stored / "spans.parquet").read_bytes()
    (stored / "spans.parquet").write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(RunError, match="is damaged"):
        load_run(stored)


def test_a_table_with_other_columns_is_refused(stored: Path) -> None:
    pl.DataFrame({"rank": [1]}).write_parquet(stored / "spans.parquet")
    with pytest.raises(RunError, match="the columns of a table in 'lesson' are not those of a run"):
        load_run(stored)


def test_a_missing_table_is_refused(stored: Path) -> None:
    (stored / "samples.parquet").unlink()
    with pytest.raises(RunError, match="is damaged"):
        load_run(stored)


@pytest.mark.parametrize("name", ["spans.parquet", "samples.parquet"])
@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "directory", "absent"])
def test_a_table_that_is_no_file_is_refused_at_once(stored: Path, name: str, target: str) -> None:
    os.mkfifo(stored / "pipe")
    (stored / "directory").mkdir()
    (stored / name).unlink()
    (stored / name).symlink_to(target)
    with pytest.raises(RunError, match=rf"is damaged \('{name}' is not a file\)"):
        load_run(stored)


def test_a_table_that_unfolds_to_more_than_memory_is_refused(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerosim.store.MAX_ROWS", 10)
    with pytest.raises(RunError, match=r"'spans\.parquet' has 54 rows, over 10"):
        load_run(stored)


def test_a_table_on_which_the_reader_panics_is_refused(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: object) -> None:
        raise pl.exceptions.PanicException("range end index 3910 out of range")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(RunError, match=r"is damaged \(range end index 3910 out of range\)"):
        load_run(stored)


@pytest.mark.parametrize("name", ["r[1]", "a*b", "s?", "~", "rank=1"])
def test_a_name_that_is_also_a_pattern_is_a_name(trace: Trace, tmp_path: Path, name: str) -> None:
    assert load_run(save_run(trace, tmp_path / name)).spans.equals(trace.spans)


def test_no_directory_and_no_run_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run at"):
        load_run(tmp_path / "absent")
    with pytest.raises(RunError, match=r"is not a run \(it has no run\.json\)"):
        load_run(tmp_path)
