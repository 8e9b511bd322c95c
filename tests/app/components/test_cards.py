"""Building blocks: titles, tiles, figures with a caption, problems that are announced."""

from __future__ import annotations

from typing import Any

from dash import html

from zerosim.figures.theme import Drawing, blank
from zerosim_app.components.cards import drawing, empty, heading, page, panel, problem, tile


def test_a_page_leaves_out_what_is_none(tree: Any) -> None:
    made = page(html.P("one"), None, html.P("two"))
    assert tree(made).text == "one two"
    assert len(made.children) == 2


def test_a_panel_has_its_title_and_note(tree: Any) -> None:
    assert tree(panel("Memory", html.P("…"), note="one rank")).text == "Memory one rank …"
    assert tree(panel(None, html.P("…"))).text == "…"


def test_a_heading_is_the_only_h1_and_may_have_a_lead(tree: Any) -> None:
    assert tree(heading("Runs", "Yours.")).text == "Runs Yours."
    assert tree(heading("Runs")).text == "Runs"


def test_an_unknown_value_looks_unknown(tree: Any) -> None:
    assert tree(tile("MFU", "unknown")).named("zs-unknown")
    assert not tree(tile("MFU", "58 %")).named("zs-unknown")


def test_a_figure_is_told_by_its_sentence(tree: Any) -> None:
    made = drawing("fig", Drawing(blank("light", height=280), "Every rank owns 8 kB."))
    assert getattr(made, "aria-label") == "Every rank owns 8 kB."
    assert tree(made).text == "Every rank owns 8 kB."
    graph = tree(made).by_id("fig")
    assert graph.style == {"height": "280px"}


def test_no_figure_offers_to_send_itself_away(tree: Any) -> None:
    graph = tree(drawing("fig", Drawing(blank("dark"), "…"))).by_id("fig")
    assert graph.config == {"showSendToCloud": False, "displaylogo": False, "displayModeBar": False}


def test_a_problem_is_announced(tree: Any) -> None:
    made = problem("no run 'x': `zerosim list runs` shows what there is")
    assert made.to_plotly_json()["props"]["role"] == "alert"
    assert "no run 'x'" in tree(made).text


def test_an_empty_place_invites(tree: Any) -> None:
    assert tree(empty("Choose ", html.B("one"), ".")).text == "Choose  . one"
