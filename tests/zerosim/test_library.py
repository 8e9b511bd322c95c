"""The library of runs: found, renamed, deleted and listed by name, and never left."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.errors import RunError
from zerosim.scenario import load_scenario, run
from zerosim.store import (
    delete_run,
    find_run,
    list_runs,
    load_meta,
    rename_run,
    save_run,
)
from zerosim.trace import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return run(load_scenario("lesson-zero3"))


@pytest.fixture
def stored(trace: Trace, tmp_path: Path) -> Path:
    return save_run(trace, tmp_path / "lesson")


NO_NAMES = [
    "../x",
    "..",
    ".",
    "",
    ".hidden",
    "a/b",
    "a\\b",
    "/etc",
    "a\0b",
    "a\x1bb",
    "a\nb",
    "a" * 201,
    "ä" * 101,
]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_that_leaves_the_library_or_fits_no_file_system_is_refused(
    stored: Path, name: str
) -> None:
    with pytest.raises(RunError, match="cannot name a run"):
        find_run(stored.parent, name)
    with pytest.raises(RunError, match="cannot name a run"):
        rename_run(stored, name)
    assert stored.is_dir()


def test_a_run_is_found_renamed_and_deleted(stored: Path) -> None:
    library = stored.parent
    path = rename_run(find_run(library, "lesson"), "first")
    assert [r.id for r in list_runs(library)] == ["first"]
    delete_run(path)
    assert list(library.iterdir()) == []


def test_what_the_system_refuses_is_one_sentence(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(RunError, match=r"cannot rename run '.*lesson': Permission denied; check"):
        rename_run(stored, "second")
    with pytest.raises(RunError, match=r"cannot delete run '.*lesson': Permission denied; check"):
        delete_run(stored)
    assert load_meta(stored).name == "lesson-zero3"
    assert [p.name for p in stored.parent.iterdir()] == ["lesson"]


def test_a_path_that_fits_no_file_system_is_one_sentence(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write run '.*': File name too long; check"):
        save_run(trace, tmp_path / ("a" * 300))


def test_a_run_is_not_renamed_over_another(trace: Trace, stored: Path) -> None:
    save_run(trace, stored.with_name("second"))
    with pytest.raises(RunError, match="'second' exists already: choose another name"):
        rename_run(stored, "second")


def test_what_is_no_run_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(RunError, match="is not a run, so it is not deleted"):
        delete_run(tmp_path / "photos")
    assert (tmp_path / "photos").is_dir()


def test_a_link_to_a_run_is_not_deleted(stored: Path) -> None:
    link = stored.with_name("link")
    link.symlink_to(stored)
    with pytest.raises(RunError, match="is not a run"):
        delete_run(link)
    assert load_meta(stored).name == "lesson-zero3"


def test_a_damaged_run_is_listed_with_its_problem(trace: Trace, stored: Path) -> None:
    (stored / "run.json").write_bytes(b"{")
    save_run(trace, stored.with_name("whole"))
    damaged, whole = list_runs(stored.parent)
    assert (damaged.id, damaged.meta) == ("lesson", None)
    assert damaged.problem is not None
    assert "is damaged" in damaged.problem
    assert (whole.id, whole.problem) == ("whole", None)


def test_a_library_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "absent") == ()
