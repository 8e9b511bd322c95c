"""The shelf: the user's runs first, the examples beside them and untouchable."""

from __future__ import annotations

from pathlib import Path

import pytest
from dash import Dash

from zerosim.errors import RunError
from zerosim.scenario import load_scenario, run
from zerosim.store import save_run
from zerosim_app.factory import create_app
from zerosim_app.shelf import Shelf
from zerosim_app.shelf import shelf as current


def test_own_runs_come_first_and_examples_are_marked(shelf: Shelf) -> None:
    assert [(entry.id, entry.is_example) for entry in shelf.entries()] == [
        ("mine", False),
        ("lesson-ddp", True),
        ("lesson-zero3", True),
    ]


def test_examples_are_there_without_a_library(shelf: Shelf, tmp_path: Path) -> None:
    alone = Shelf(tmp_path / "nowhere", shelf.examples)
    assert [entry.id for entry in alone.entries()] == ["lesson-ddp", "lesson-zero3"]
    assert alone.load("lesson-ddp").meta.name == "lesson-ddp"


def test_an_own_run_takes_an_examples_name_and_both_can_be_opened(shelf: Shelf) -> None:
    save_run(run(load_scenario("lesson-zero1")), shelf.library / "lesson-zero3")
    assert [entry.id for entry in shelf.entries()] == [
        "lesson-zero3",
        "mine",
        "lesson-ddp",
        "example:lesson-zero3",
    ]
    assert shelf.load("lesson-zero3").meta.name == "lesson-zero1"
    assert shelf.load("example:lesson-zero3").meta.name == "lesson-zero3"


def test_an_example_is_never_changed(shelf: Shelf) -> None:
    with pytest.raises(RunError, match="is an example that ships with zerosim"):
        shelf.own_path("lesson-zero3")
    assert shelf.own_path("mine") == shelf.library / "mine"


@pytest.mark.parametrize("name", ["../examples/lesson-ddp", "", ".hidden", "a/b", "example:../x"])
def test_a_name_cannot_leave_the_library(shelf: Shelf, name: str) -> None:
    with pytest.raises(RunError):
        shelf.path_of(name)


def test_an_unknown_run_is_refused_in_a_sentence(shelf: Shelf) -> None:
    with pytest.raises(RunError, match="no run 'absent'"):
        shelf.load("absent")


def test_a_run_is_read_once_until_it_changes(shelf: Shelf) -> None:
    first = shelf.load("mine")
    assert shelf.load("mine") is first
    save_run(run(load_scenario("lesson-ddp")), shelf.library / "mine")
    assert shelf.load("mine").meta.name == "lesson-ddp"


def test_the_summary_is_that_of_the_run(shelf: Shelf) -> None:
    summary = shelf.summary("lesson-zero3")
    assert summary["bytes_sent"] == 12_599_296
    assert summary["order"].startswith("AG0 F0 AG1 F1")


def test_a_damaged_run_is_listed_with_its_problem(shelf: Shelf) -> None:
    (shelf.library / "mine" / "run.json").write_text("{")
    (entry,) = [e for e in shelf.entries() if e.id == "mine"]
    assert entry.meta is None
    assert "is damaged" in (entry.stored.problem or "")


def test_two_apps_in_one_process_keep_their_shelves_apart(shelf: Shelf, tmp_path: Path) -> None:
    one: Dash = create_app(shelf.library, examples=shelf.examples)
    two: Dash = create_app(tmp_path / "other", examples=shelf.examples)
    with one.server.test_request_context("/"):
        assert current().library == shelf.library
    with two.server.test_request_context("/"):
        assert current().library == tmp_path / "other"
