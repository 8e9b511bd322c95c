"""Accuracy: every row and series is shown, filters leave what they name, and an odd address opens, too."""

from __future__ import annotations

from typing import Any

import pytest
from dash import Dash

from zerosim.validation.ablation import Ablated
from zerosim.validation.published import published
from zerosim.validation.score import Errors
from zerosim_app.components.scores import VIEWS, mechanisms
from zerosim_app.components.scores.collectives import series_of
from zerosim_app.components.scores.steps import chosen
from zerosim_app.pages.accuracy import layout, show
from zerosim_app.urlstate import AccuracyState

BOARD = published().steps
ASKED = ("test", None, None, None, "source", None)


def rows_of(page: Any, id_: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = page.by_id(id_).rowData
    return rows


def test_the_tiles_are_the_scores_of_unseen_rows_beside_the_null_model(
    serving: Dash, tree: Any
) -> None:
    del serving
    text = tree(layout()).text
    suite = BOARD.suite("test")
    assert suite is not None
    assert suite.null is not None
    assert f"Unseen steps, median {suite.errors.median:.1%}" in text
    assert f"null model {suite.null.median:.1%}" in text


def test_rows_stand_worst_first_with_what_was_assumed(serving: Dash, tree: Any) -> None:
    del serving
    rows = rows_of(tree(show("light", "steps", *ASKED)), "acc-rows")
    errors = [abs(row["error"]) for row in rows]
    assert errors == sorted(errors, reverse=True)
    assert {row["split"] for row in rows} == {"test"}
    assert any("ag_dtype = bfloat16" in row["assumed"] for row in rows)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", list(VIEWS))
def test_every_view_opens_in_both_themes(serving: Dash, tree: Any, view: str, theme: str) -> None:
    del serving
    page = tree(show(theme, view, *ASKED))
    assert page.named("zs-panel")
    assert page.named("zs-figure") or view == "left"


def test_filters_leave_the_rows_that_they_name() -> None:
    state = AccuracyState(suite="all", split="calib", source="llmfoundry-2024")
    rows = chosen(BOARD, state)
    assert rows
    assert {(row.split, row.source_id) for row in rows} == {("calib", "llmfoundry-2024")}
    assert len(chosen(BOARD, AccuracyState(suite="all"))) == len(BOARD.rows)


def test_filters_that_name_nothing_there_is_leave_everything() -> None:
    odd = AccuracyState(suite="no such", source="nobody", gpu="abacus")
    assert len(chosen(BOARD, odd)) == len(BOARD.rows)


def test_filters_that_leave_nothing_say_so(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(show("light", "steps", "core-calib", "test", None, None, "source", None))
    assert "No row is left: choose fewer filters." in page.text
    assert rows_of(page, "acc-rows") == []


def test_a_series_is_drawn_as_points_and_lines(serving: Dash, tree: Any) -> None:
    del serving
    name = series_of(published())[0]
    page = tree(show("light", "collectives", *ASKED[:-1], name))
    modes = [trace.mode for trace in page.by_id("acc-busbw").figure.data]
    assert set(modes) == {"markers", "lines"}
    assert name in page.text


def test_memory_stands_beside_what_was_measured_and_what_fits(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(show("light", "memory", "test", "test", None, None, "source", None))
    rows = rows_of(page, "acc-memory")
    assert {row["split"] for row in rows} == {"test"}
    assert [abs(row["error"]) for row in rows] == sorted(
        (abs(row["error"]) for row in rows), reverse=True
    )
    assert {row["hit"] for row in rows_of(page, "acc-fits")} <= {"yes", "no"}


def test_mechanisms_stand_with_the_errors_without_them(
    serving: Dash, tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    del serving
    errors = Errors(n_rows=1, n_sources=1, median=0.1, mean=0.2, p90=0.3, bias=0.0)
    every = {"core-holdout": errors}
    found = [Ablated(n, f"no {n}", True, every, {"core-holdout": 2.0}) for n in ("", "overlap")]
    monkeypatch.setattr(mechanisms, "ablations", lambda: tuple(found))
    page = tree(show("light", "mechanisms", *ASKED))
    assert "constants fitted anew each time" in page.text
    assert rows_of(page, "acc-without")[1] == {
        "says": "no overlap",
        "median": 0.1,
        "mean": 0.2,
        "p90": 0.3,
        "mosaicml": None,
        "scaling": 2.0,
    }


def test_the_reasons_of_what_is_left_out_are_counted(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(show("light", "left", *ASKED))
    assert sum(row["n"] for row in rows_of(page, "acc-left")) == sum(
        one.n for one in published().left_out
    )
    assert rows_of(page, "acc-filled")[0]["n"] > 0


def test_an_address_chooses_view_and_filters(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout(view="scaling", gpu="H100 SXM5 80GB", by="nonsense"))
    assert page.by_id("acc-view").value == "scaling"
    assert page.by_id("acc-gpu").value == "H100 SXM5 80GB"
    assert page.by_id("acc-by").value == "source"
