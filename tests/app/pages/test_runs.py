"""Runs: what is listed, what may be done with it, and how imports end."""

from __future__ import annotations

import time
from io import BytesIO
from typing import Any

import pytest
from dash import Dash, no_update

from zerosim.quality import Quality
from zerosim.store import list_runs, save_run
from zerosim.trace import Meta, make_trace
from zerosim_app.pages.runs import allowed, delete, layout, progress, rename, shown, take, what
from zerosim_app.shelf import Shelf
from zerosim_app.uploads import Announced, uploads

MINE = {"id": "mine", "kind": "library"}
EXAMPLE = {"id": "lesson-ddp", "kind": "examples"}


def names(shelf: Shelf) -> list[str]:
    return [run.id for run in list_runs(shelf.library)]


def test_every_run_has_a_row_with_its_figures(serving: Dash) -> None:
    del serving
    rows, style = shown(0)
    assert [row["id"] for row in rows] == ["mine", "lesson-ddp", "lesson-zero3"]
    assert rows[2] == {
        "id": "lesson-zero3",
        "kind": "examples",
        "quality": "good",
        "source": "simulated",
        "world_size": 3,
        "step_ns": 23_310_686,
        "exposed_ns": 9_579_396,
        "peak_bytes": 13_583_360,
    }
    assert style == {"height": "148px", "width": "100%"}


def test_a_damaged_run_says_what_is_wrong(serving: Dash, shelf: Shelf) -> None:
    del serving
    (shelf.library / "mine" / "spans.parquet").write_bytes(b"no")
    row = shown(0)[0][0]
    assert "is damaged" in row["quality"]
    assert "step_ns" not in row


def test_a_run_whose_ranks_are_not_all_there_says_so(serving: Dash, shelf: Shelf) -> None:
    del serving
    spans = {"rank": [0, 2], "kind": ["other"] * 2, "stream": ["stream 7"] * 2, "name": ["a", "b"],
             "start_ns": [0, 0], "end_ns": [5, 5]}  # fmt: skip
    meta = Meta("torn", "imported", 4, quality=Quality(warnings=("a", "b 1", "b 2", "b 3")))
    save_run(make_trace(spans, meta), shelf.library / "torn")
    assert shown(0)[0][1]["quality"] == "2 of 4 ranks, 2 warnings"


@pytest.mark.parametrize(
    ("ticked", "expected"),
    [
        (None, (False, False, False, False)),
        ([MINE], (True, False, True, True)),
        ([EXAMPLE], (True, False, False, False)),
        ([MINE, EXAMPLE], (False, True, False, False)),
        ([MINE, MINE], (False, True, False, True)),
        ([MINE, MINE, MINE], (False, False, False, True)),
    ],
)
def test_what_may_be_done_depends_on_what_is_ticked(
    ticked: list[dict[str, str]] | None, expected: tuple[bool, bool, bool, bool]
) -> None:
    assert tuple(not off for off in allowed(ticked)) == expected


def test_a_run_is_renamed(serving: Dash, shelf: Shelf) -> None:
    del serving
    assert rename(1, " better ", 4, [MINE]) == (5, "'mine' is now called 'better'.", False)
    assert names(shelf) == ["better"]


@pytest.mark.parametrize("to", ["", None, "../x", "a/b", "mine"])
def test_a_bad_name_is_refused_and_nothing_changes(
    serving: Dash, shelf: Shelf, to: str | None
) -> None:
    del serving
    changed, said, opened = rename(1, to, 4, [MINE])
    assert changed is no_update
    assert said
    assert opened is False
    assert names(shelf) == ["mine"]


def test_an_example_is_neither_renamed_nor_deleted(serving: Dash, shelf: Shelf) -> None:
    del serving
    assert "ships with zerosim" in rename(1, "x", 0, [EXAMPLE])[1]
    assert "ships with zerosim" in delete(1, 0, [EXAMPLE])[1]
    assert (shelf.examples / "lesson-ddp" / "run.json").is_file()


def test_a_run_is_deleted(serving: Dash, shelf: Shelf) -> None:
    del serving
    assert what([MINE]) == "mine"
    assert delete(1, 0, [MINE]) == (1, "Deleted: mine.", False)
    assert names(shelf) == []


def test_nothing_ticked_renames_nothing(serving: Dash) -> None:
    del serving
    assert rename(1, "x", 0, None)[1] == "Tick a run first."


def test_the_page_states_its_limit(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout())
    assert "up to 4.29 GB each" in page.text


def test_a_file_that_is_no_trace_ends_in_a_sentence(serving: Dash, tree: Any) -> None:
    del serving
    sent = uploads().begin([Announced("notes.txt", 5)])
    uploads().append(sent, 0, 0, BytesIO(b"hello"), 5)
    job, off = take(sent, None, None)
    assert off is False
    for tick in range(500):
        said, off, changed = progress(tick, job, 0)
        if off is True:
            break
        time.sleep(0.01)
    assert off is True
    assert changed is no_update
    assert [part.children for part in tree(said).named("zs-failed")] == [tree(said).text]
    assert tree(said).text


def test_an_import_that_the_server_forgot_is_told(serving: Dash, tree: Any) -> None:
    del serving
    said, off, _ = progress(1, "gone", 0)
    assert off is True
    assert "start it again" in tree(said).text


def test_no_drop_starts_nothing(serving: Dash) -> None:
    del serving
    assert take(None, None, None) == (no_update, no_update)
    assert progress(1, None, 0)[1] is True
