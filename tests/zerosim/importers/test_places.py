"""Folders, patterns and links: what a path stands for, and what is left out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zerosim.errors import TraceFileError
from zerosim.importers import IMPORTERS, Importer, kineto, places, read


@pytest.fixture
def folder(chrome: Any, tmp_path: Path) -> Path:
    """Two ranks, in folders of their own."""
    for rank in (0, 1):
        trace = chrome(rank=rank)
        trace.collective("_allgather_base", 100 + rank, 50, launched=10)
        (tmp_path / f"node{rank}").mkdir()
        trace.write(tmp_path / f"node{rank}" / f"t{rank}.json")
    return tmp_path


def test_a_folder_means_the_files_in_and_under_it(folder: Path) -> None:
    assert read([folder]).ranks == (0, 1)


def test_a_pattern_means_the_files_that_match(folder: Path) -> None:
    assert read([folder / "node*" / "*.json"]).ranks == (0, 1)
    assert read([folder / "**" / "t?.json"]).ranks == (0, 1)
    assert read([folder / "node[1]" / "t*"]).ranks == (1,)


def test_a_pattern_without_matches_is_refused(folder: Path) -> None:
    with pytest.raises(TraceFileError, match=r"no file matches '.*\*\.gz': check the pattern"):
        read([folder / "*.gz"])


def test_a_file_may_have_a_name_like_a_pattern(folder: Path) -> None:
    odd = (folder / "node0" / "t0.json").rename(folder / "t[0].json")
    assert read([odd]).ranks == (0,)


def test_links_in_a_folder_are_not_followed(folder: Path) -> None:
    (folder / "secret.json").symlink_to("/etc/passwd")
    (folder / "circle").symlink_to(folder)
    trace = read([folder])
    assert trace.ranks == (0, 1)
    assert trace.meta.quality.warnings == (
        "'circle' left out: it is a link",
        "'secret.json' left out: it is a link",
    )


def test_a_link_that_is_named_is_followed_and_one_to_nowhere_refused(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "node1" / "t1.json")
    assert read([folder / "link"]).ranks == (1,)
    (folder / "nowhere").symlink_to(folder / "gone")
    (folder / "round").symlink_to(folder / "round")
    for name in ("nowhere", "round"):
        with pytest.raises(TraceFileError, match="cannot read"):
            read([folder / name])


def test_a_file_that_is_named_twice_is_read_once(folder: Path) -> None:
    trace = read([folder, folder / "node1" / "t1.json"])
    assert trace.ranks == (0, 1)
    assert trace.meta.quality.warnings == ("'t1.json' is named twice: read once",)


def test_too_many_files_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MAX_FILES", 1)
    with pytest.raises(TraceFileError, match="over 1 files: give those of one run"):
        read([folder])


def test_folders_too_deep_are_left_out_aloud(folder: Path) -> None:
    deep = folder.joinpath(*"abcdefghij")
    deep.mkdir(parents=True)
    (folder / "node0" / "t0.json").rename(deep / "t0.json")
    trace = read([folder])
    assert trace.ranks == (1,)
    assert trace.meta.quality.warnings == ("folder 'i' left out: it lies over 8 folders deep",)


@pytest.fixture
def other_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second format, of files that begin with `other` and time nothing more than Kineto's do."""
    known = {name: IMPORTERS[name] for name in IMPORTERS}
    other = Importer(
        lambda raw: raw.startswith(b"[ "),
        kineto.parse,
    )
    monkeypatch.setattr("zerosim.importers.IMPORTERS", {"other": other, **known})


@pytest.mark.usefixtures("other_format")
def test_of_two_formats_in_a_folder_the_one_that_timed_most_counts(folder: Path) -> None:
    (folder / "extra").write_text('[ {"ph": "X", "name": "a"}]')
    trace = read([folder])
    assert trace.ranks == (0, 1)
    assert trace.meta.quality.warnings == (
        "1 recording of format other left out beside kineto, 'extra' first: import them by themselves",
    )


@pytest.mark.usefixtures("other_format")
def test_two_formats_asked_for_by_name_are_refused(folder: Path) -> None:
    (folder / "extra").write_text('[ {"ph": "X", "name": "a"}]')
    with pytest.raises(TraceFileError, match=r"of several formats \(kineto, other\)"):
        read([folder / "extra", folder / "node0" / "t0.json"])
