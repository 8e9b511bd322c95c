"""Every page, both themes: it opens, it is quiet, it asks nobody else, and the header names it."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.e2e

PAGES = (
    "/",
    "/learn/zero3",
    "/learn/zero2",
    "/learn/zero1",
    "/learn/ddp",
    "/simulate",
    "/simulate?preset=five-parameters-old&view=balance",
    "/explore",
    "/explore?run=lesson-zero3",
    "/compare",
    "/compare?a=lesson-zero3&b=lesson-zero3-gloo",
    "/runs",
    "/accuracy",
    "/accuracy?view=collectives",
)
NAMES = {
    "": "Start",
    "learn": "Learn",
    "simulate": "Simulate",
    "explore": "Explore",
    "compare": "Compare",
    "runs": "Runs",
    "accuracy": "Accuracy",
}


def settled(page: Any) -> None:
    page.wait_for_function("!document.querySelector('._dash-loading')")
    page.wait_for_load_state("networkidle")


def test_every_page_opens_without_errors_or_strangers(open_page: Any, theme: str) -> None:
    page = open_page("/", theme)
    for path in PAGES:
        page.evaluate("(href) => dash_clientside.set_props('where', { href })", path)
        page.wait_for_function("(path) => location.pathname + location.search === path", arg=path)
        settled(page)
        assert page.locator("#page h1").count() == 1
        assert page.title().endswith("zerosim")
        here = page.locator("[aria-label=Pages] .zs-here").all_inner_texts()
        assert here == [NAMES[path.split("?")[0].split("/")[1]]]
    assert page.evaluate("document.documentElement.dataset.mantineColorScheme") == theme


def test_a_page_opens_from_its_address(open_page: Any) -> None:
    page = open_page("/compare?a=five-parameters-old&b=five-parameters")
    settled(page)
    assert "3 of 8 ranks own nothing" in page.inner_text("#page")


def test_every_tab_of_a_run_opens_without_errors(open_page: Any, theme: str) -> None:
    page = open_page("/explore?run=gpt2-1.5b", theme)
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.wait_for_function(
            "(before) => document.getElementById('explore-tab').textContent !== before",
            arg=page.evaluate("document.getElementById('explore-tab').dataset.seen ?? ''"),
        )
        settled(page)
        page.evaluate(
            "(e => e.dataset.seen = e.textContent)(document.getElementById('explore-tab'))"
        )
    assert page.get_by_role("tab").count() == 7


def test_the_page_fits_a_narrow_window(open_page: Any) -> None:
    page = open_page("/learn/zero3")
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_the_theme_is_chosen_kept_and_applied(open_page: Any) -> None:
    page = open_page("/", "light")
    page.get_by_text("Dark", exact=True).click()
    page.wait_for_function("document.documentElement.dataset.mantineColorScheme === 'dark'")
    page.wait_for_function("localStorage.getItem('theme-choice') === '\"dark\"'")
    page.reload()
    page.wait_for_selector("#page h1")
    assert page.evaluate("document.documentElement.dataset.mantineColorScheme") == "dark"
    page.wait_for_selector("#theme-switch input[value=dark]:checked", state="attached")


def test_the_system_decides_while_the_theme_is_automatic(open_page: Any) -> None:
    page = open_page("/", "light")
    settled(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.mantineColorScheme === 'dark'")


def test_figures_follow_the_theme(open_page: Any) -> None:
    page = open_page("/explore?run=lesson-zero3&tab=balance", "light")
    ink = "() => document.querySelector('#fig-states .ytick text')?.style.fill"
    page.wait_for_function(f"({ink})() === 'rgb(31, 41, 51)'")
    page.get_by_text("Dark", exact=True).click()
    page.wait_for_function(f"({ink})() === 'rgb(227, 230, 234)'")


def test_a_question_mark_shows_the_keys_and_escape_hides_them(open_page: Any) -> None:
    page = open_page("/")
    settled(page)
    page.keyboard.press("?")
    page.wait_for_selector('[role="dialog"] >> text=previous, next step')
    page.keyboard.press("Escape")
    page.wait_for_selector('[role="dialog"]', state="detached")


def test_the_keyboard_reaches_the_content_first(open_page: Any) -> None:
    page = open_page("/")
    settled(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#page"


def test_nothing_moves_while_a_page_loads(open_page: Any) -> None:
    page = open_page("/learn/zero3")
    moved = """() => new Promise((resolve) => {
      let sum = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((e) => (sum += e.value)))
        .observe({ type: "layout-shift", buffered: true });
      setTimeout(() => resolve(sum), 1200);
    })"""
    assert page.evaluate(moved) < 0.1
