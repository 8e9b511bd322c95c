"""Explore: a run's figures, its timeline, and tabs that show what is known."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from dash import Dash, no_update

from zerosim.store import save_run
from zerosim.trace import Meta, make_trace
from zerosim_app.pages.explore import TABS, layout, show_tab
from zerosim_app.shelf import Shelf
from zerosim_app.urlstate import Tab


def test_the_tiles_are_the_runs_figures(serving: Dash, tree: Any) -> None:
    del serving
    text = tree(layout(run="lesson-zero3")).text
    for words in ("Step 23.3 ms", "Exposed 9.58 ms", "Bytes sent 12.6 MB", "Overlap 24.0 %"):
        assert words in text


def test_a_sentence_says_why_it_is_not_faster(serving: Dash, tree: Any) -> None:
    del serving
    assert (
        "Why is it not faster? Rank 0: of 23.3 ms, 9.58 ms (41 %) are not computing, chiefly "
        "transfers that nothing hides (9.58 ms, 4.85 ms of it all-gather)."
    ) in tree(layout(run="lesson-zero3")).text


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([], "There are no ops in this run: what its files say stands under Run."),
        (
            [5, 9],
            "Nobody knows how long an op of this run took: they stand in order under Operatio",
        ),
    ],
)
def test_an_empty_timeline_says_why(
    serving: Dash, shelf: Shelf, tree: Any, ends: list[int], said: str
) -> None:
    del serving
    n = len(ends)
    spans = {"rank": [0] * n, "kind": ["barrier"] * n, "stream": ["calls"] * n, "name": ["b"] * n,
             "start_ns": ends, "end_ns": ends}  # fmt: skip
    save_run(make_trace(spans, Meta("bare", "imported", 1)), shelf.library / "bare")
    assert said in tree(layout(run="bare")).text
    selected = show_tab("selection", "light", None, None, "bare")
    assert "No complete step is known" in tree(selected).text


def test_the_timeline_draws_the_run_that_the_address_names(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout(run="lesson-zero3"))
    (drawn,) = page.by_id("tl-cfg").data["runs"]
    assert drawn["url"] == "/api/runs/lesson-zero3/timeline.json"
    assert {"tl-view", "tl-sel", "explore-tabs", "explore-tab"} <= page.ids()


def test_without_a_run_one_is_offered(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout())
    assert "/explore?run=lesson-zero3" in page.hrefs()
    assert page.by_id("explore-run").value is None


def test_the_choice_has_the_users_runs_before_the_examples(serving: Dash, tree: Any) -> None:
    del serving
    groups = tree(layout()).by_id("explore-run").data
    assert [(g["group"], [i["value"] for i in g["items"]]) for g in groups] == [
        ("Your runs", ["mine"]),
        ("Examples", ["lesson-ddp", "lesson-zero3"]),
    ]


@pytest.mark.parametrize("run", ["absent", "../secret", ".", "a/b"])
def test_a_run_that_is_not_there_is_a_sentence(serving: Dash, tree: Any, run: str) -> None:
    del serving
    page = tree(layout(run=run))
    assert "This cannot be shown." in page.text
    assert "tl-cfg" not in page.ids()


def test_the_address_opens_a_tab(serving: Dash, tree: Any) -> None:
    del serving
    assert tree(layout(run="mine", tab="memory")).by_id("explore-tabs").value == "memory"
    assert tree(layout(run="mine", tab="nonsense")).by_id("explore-tabs").value == "selection"


def test_every_tab_of_the_address_is_there() -> None:
    assert tuple(TABS) == get_args(Tab)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tab", list(TABS))
def test_every_tab_shows_something_in_both_themes(
    serving: Dash, tree: Any, tab: str, theme: str
) -> None:
    del serving
    content = tree(show_tab(tab, theme, None, None, "lesson-zero3"))
    assert content.text
    assert "This cannot be shown." not in content.text


def test_figures_have_the_theme_and_a_caption(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(show_tab("memory", "dark", None, None, "lesson-zero3"))
    graph = page.by_id("fig-memory")
    assert graph.figure.layout.template.layout.font.color == "#e3e6ea"
    assert graph.config["showSendToCloud"] is False
    assert page.text.startswith("Rank 0 peaks at 13.6 MB after")


def test_a_selected_collective_is_shown_on_all_ranks(serving: Dash, tree: Any) -> None:
    del serving
    selected = {"type": "span", "run": 0, "span": 0, "rank": 0, "name": "AG0"}
    page = tree(show_tab("selection", "light", None, selected, "lesson-zero3"))
    assert "AG0 all-gather, rank 0" in page.text
    assert [row["rank"] for row in page.by_id("sel-members").rowData] == [0, 1, 2]


def test_a_selected_area_is_summed_by_rank(serving: Dash, tree: Any) -> None:
    del serving
    area = {"type": "area", "runs": [{"run_id": "x", "t0_ns": 0, "t1_ns": 1_574_912}]}
    page = tree(show_tab("selection", "light", None, area, "lesson-zero3"))
    first = page.by_id("sel-window").rowData[0]
    assert (first["comm_ns"], first["compute_ns"]) == (1_574_912, 0)


@pytest.mark.parametrize(
    "selected",
    [{}, {"type": "span"}, {"type": "span", "span": "0"}, {"type": "span", "span": 10**9},
     {"type": "area", "runs": []}, {"type": "area", "runs": [{"t0_ns": None}]}],
)  # fmt: skip
def test_a_selection_that_makes_no_sense_breaks_nothing(
    serving: Dash, tree: Any, selected: dict[str, Any]
) -> None:
    del serving
    assert tree(show_tab("selection", "light", None, selected, "lesson-zero3")).parts


def test_the_operations_of_the_selected_rank_are_listed(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(
        show_tab(
            "operations", "light", None, {"type": "span", "span": 0, "rank": 2}, "lesson-zero3"
        )
    )
    rows = page.by_id("tab-operations").rowData
    assert "The ops of rank 2 in issue order." in page.text
    assert [row["name"] for row in rows if row["kind"] != "fill"] == (
        [
            "AG0",
            "F0",
            "AG1",
            "F1",
            "AG2",
            "F2",
            "B2",
            "RS2",
            "AG1",
            "B1",
            "RS1",
            "AG0",
            "B0",
            "RS0",
            "OPT",
        ]
    )


def test_the_run_tab_shows_the_scenario_as_toml(serving: Dash, tree: Any) -> None:
    del serving
    text = tree(show_tab("run", "light", None, None, "lesson-zero3")).text
    schedule = text[text.index("[schedule]") :].split("\n\n")[0]
    assert 'name = "zero3"' in schedule.splitlines()
    assert "keep_last = true" in schedule.splitlines()


def test_without_a_run_nothing_is_computed(serving: Dash) -> None:
    del serving
    assert show_tab("memory", "light", None, None, None) is no_update


def test_a_run_that_vanished_is_a_sentence(serving: Dash, tree: Any) -> None:
    del serving
    assert "no run 'gone'" in tree(show_tab("memory", "light", None, None, "gone")).text
