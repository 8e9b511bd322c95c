"""A directory takes another one's place in one step, and whatever fails leaves the older one."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import pytest

from zerosim.disk import identity, put_in_place, whole_directory


def made(path: Path, content: str) -> Path:
    path.mkdir()
    (path / "file").write_text(content)
    return path


def test_a_new_directory_appears_when_its_block_ends(tmp_path: Path) -> None:
    with whole_directory(tmp_path / "deep" / "new") as scratch:
        (scratch / "file").write_text("one")
        assert not (tmp_path / "deep" / "new").exists()
    assert (tmp_path / "deep" / "new" / "file").read_text() == "one"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["new"]


def test_an_older_directory_stays_until_the_block_ends_and_is_gone_then(tmp_path: Path) -> None:
    old = made(tmp_path / "run", "old")
    (old / "more").write_text("old")
    with whole_directory(old) as scratch:
        (scratch / "file").write_text("new")
        assert (old / "file").read_text() == "old"
    assert {p.name: p.read_text() for p in old.iterdir()} == {"file": "new"}
    assert list(tmp_path.iterdir()) == [old]


def test_an_error_leaves_the_older_directory_and_nothing_else(tmp_path: Path) -> None:
    old = made(tmp_path / "run", "old")

    def broken() -> None:
        with whole_directory(old) as scratch:
            (scratch / "file").write_text("half")
            raise LookupError

    with pytest.raises(LookupError):
        broken()
    assert (old / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]


def test_a_file_is_not_replaced_by_a_directory(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(NotADirectoryError), whole_directory(tmp_path / "notes"):
        pass
    assert (tmp_path / "notes").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("system", ["at once", "in steps"])
def test_two_directories_change_places(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system == "in steps":
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    one, other = made(tmp_path / "one", "1"), made(tmp_path / "other", "2")
    put_in_place(one, other)
    assert (other / "file").read_text() == "1"
    assert (one / "file").read_text() == "2"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "other"]


def test_what_stood_there_comes_back_if_the_last_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    one, other = made(tmp_path / "one", "1"), made(tmp_path / "other", "2")
    rename = Path.rename

    def refuse(source: Path, target: Path) -> Path:
        if source == one:
            raise PermissionError(13, "Permission denied")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PermissionError):
        put_in_place(one, other)
    assert (other / "file").read_text() == "2"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "other"]


def test_a_directory_that_took_the_name_of_another_is_another(tmp_path: Path) -> None:
    assert identity(tmp_path / "run") is None
    first = identity(made(tmp_path / "run", "old"))
    with whole_directory(tmp_path / "run") as scratch:
        (scratch / "file").write_text("new")
    assert first is not None
    assert identity(tmp_path / "run") not in (None, first)


def test_writers_of_one_directory_never_mix_and_leave_nothing_behind(tmp_path: Path) -> None:
    problems: list[BaseException] = []

    def write(content: str) -> None:
        try:
            for _ in range(20):
                with whole_directory(tmp_path / "run") as scratch:
                    (scratch / "a").write_text(content)
                    (scratch / "b").write_text(content)
        except OSError as error:
            problems.append(error)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("x", "y", "z")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert problems == []
    assert (tmp_path / "run" / "a").read_text() == (tmp_path / "run" / "b").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
