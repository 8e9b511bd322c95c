"""Compare: any two runs on one axis, their ratio, accounts and matched ops."""

from __future__ import annotations

from typing import Any

import pytest
from dash import Dash

from zerosim.scenario import load_scenario, run
from zerosim.store import save_run
from zerosim.trace import Meta, make_trace
from zerosim_app.pages.compare import layout, show_accounts, show_owners
from zerosim_app.shelf import Shelf


def test_the_step_ratio_is_shown(serving: Dash, tree: Any) -> None:
    del serving
    text = tree(layout(a="mine", b="lesson-zero3")).text
    assert "Step, A 20 ms" in text
    assert "Step, B 23.3 ms" in text
    assert "1.164\u00d7 A is faster" in text


def test_both_runs_are_on_one_timeline(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout(a="mine", b="lesson-zero3", align="F0", scale="norm"))
    drawn = page.by_id("pair-cfg").data
    assert [r["url"] for r in drawn["runs"]] == [
        "/api/runs/mine/timeline.json",
        "/api/runs/lesson-zero3/timeline.json",
    ]
    assert (drawn["align"], drawn["scale"]) == ("F0", "norm")


def test_a_run_equals_itself(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout(a="mine", b="mine"))
    assert "1.000\u00d7 equally long steps" in page.text
    assert {row["delta_ns"] for row in page.by_id("compare-residuals").rowData} == {0}


def test_matched_ops_are_listed_by_kind(serving: Dash, tree: Any) -> None:
    del serving
    rows = tree(layout(a="mine", b="lesson-zero3")).by_id("compare-matched").rowData
    counts = {row["kind"]: row["count"] for row in rows}
    assert counts["forward"] == 9
    assert counts["all_gather"] == 9


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_accounts_stand_in_one_figure(serving: Dash, tree: Any, theme: str) -> None:
    del serving
    figure = tree(show_accounts(theme, ["mine", "lesson-zero3"])).by_id("fig-accounts").figure
    assert list(figure.data[0].y) == ["A \u00b7 mine", "B \u00b7 lesson-zero3"]
    assert sum(trace.x[1] for trace in figure.data) == pytest.approx(23.310686)


def test_who_owns_the_optimizer_states_is_drawn_for_both_runs(
    shelf: Shelf, serving: Dash, tree: Any
) -> None:
    del serving
    for name in ("five-parameters-old", "five-parameters"):
        save_run(run(load_scenario(name)), shelf.library / name)
    drawn = tree(show_owners("dark", ["five-parameters-old", "five-parameters"]))
    names = [trace.name for trace in drawn.by_id("fig-owners").figure.data]
    assert names == ["A \u00b7 five-parameters-old", "B \u00b7 five-parameters"]
    assert "3 of 8 ranks own nothing, the most is 201 MB, 1.60 times the mean." in drawn.text


def test_one_run_is_not_enough(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout(a="mine"))
    assert "Choose two runs" in page.text
    assert page.by_id("compare-a").value == "mine"
    assert show_accounts("light", ["mine", None]) is None
    assert show_owners("light", ["mine", None]) is None


def test_a_run_that_is_not_there_is_a_sentence(serving: Dash, tree: Any) -> None:
    del serving
    assert "no run 'absent'" in tree(layout(a="mine", b="absent")).text
    assert "no run 'absent'" in tree(show_accounts("light", ["mine", "absent"])).text
    assert "no run 'absent'" in tree(show_owners("light", ["mine", "absent"])).text


def test_runs_of_different_makers_compare_even_if_little_is_known(
    shelf: Shelf, serving: Dash, tree: Any
) -> None:
    del serving
    spans = {"rank": [7], "kind": ["forward"], "stream": ["compute"], "name": ["gemm"],
             "start_ns": [10], "end_ns": [30]}  # fmt: skip
    save_run(make_trace(spans, Meta("bare", "imported", None)), shelf.library / "bare")
    page = tree(layout(a="lesson-zero3", b="bare"))
    assert "Step, B unknown imported" in page.text
    assert "B / A unknown no complete step" in page.text


def test_a_big_run_compares_with_a_small_one(shelf: Shelf, serving: Dash, tree: Any) -> None:
    del serving
    big = run(load_scenario("lesson-zero3", ["world_size=300", "steps=2"]))
    save_run(big, shelf.library / "big")
    assert "Matched ops" in tree(layout(a="lesson-zero3", b="big")).text
