"""The lesson, by keyboard: first to last state and back, as the engine tells it."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.lessons import LESSONS, lesson
from zerosim_app.components.lesson import steps

pytestmark = pytest.mark.e2e


def shown(page: Any) -> dict[str, Any]:
    """What the page shows now."""
    found: dict[str, Any] = page.evaluate(
        """() => ({
          sentence: document.getElementById("lesson-sentence").textContent,
          cells: [...document.querySelectorAll(".zs-gpu")].map((gpu) =>
            [...gpu.querySelectorAll(".zs-cell")]
              .sort((a, b) => a.dataset.cell - b.dataset.cell).map((c) => c.dataset.fill)),
          op: document.querySelector('.zs-op[aria-current="step"] span').textContent,
          bytes: [...document.querySelectorAll(".zs-kind-bytes")].map((b) => b.textContent),
          total: document.querySelector(".zs-total").textContent,
          step: new URLSearchParams(location.search).get("step"),
        })"""
    )
    return found


def ready(page: Any) -> None:
    page.wait_for_selector("#lesson[data-mounted]")


def press(page: Any, key: str, to: int) -> dict[str, Any]:
    page.keyboard.press(key)
    page.wait_for_selector(f'#lesson[data-step="{to}"]')
    return shown(page)


@pytest.mark.parametrize("name", list(LESSONS))
def test_every_step_is_what_the_engine_says_there_and_back(open_page: Any, name: str) -> None:
    page = open_page(f"/learn/{name}")
    ready(page)
    told, shipped = lesson(name), steps(lesson(name))["states"]
    last = len(told.states) - 1
    there = [shown(page)] + [press(page, "ArrowRight", i) for i in range(1, last + 1)]
    back = [press(page, "ArrowLeft", i) for i in range(last - 1, -1, -1)]
    for i, seen in enumerate(there):
        assert seen["sentence"] == told.states[i].sentence
        assert seen["cells"] == [shipped[i]["cells"]] * told.n_ranks
        assert seen["bytes"] == shipped[i]["bytes"]
        assert seen["total"] == shipped[i]["total"]
        assert seen["step"] == (str(i) if i else None)
    assert [s["op"] for s in there] == ["start", *told.order.split(), "end"]
    assert back == there[-2::-1]


def test_home_and_end_jump_and_the_ends_hold(open_page: Any) -> None:
    page = open_page("/learn/zero3")
    ready(page)
    assert press(page, "End", 16)["op"] == "end"
    assert press(page, "ArrowRight", 16)["op"] == "end"
    assert press(page, "Home", 0)["op"] == "start"
    assert press(page, "ArrowLeft", 0)["op"] == "start"


def test_space_plays_and_pauses(open_page: Any) -> None:
    page = open_page("/learn/zero3")
    ready(page)
    press(page, "End", 16)
    page.keyboard.press("Space")
    page.wait_for_selector('#lesson[data-step="1"]', timeout=10_000)
    assert page.inner_text('[data-does="play"]') == "Pause"
    page.keyboard.press("Space")
    assert page.inner_text('[data-does="play"]') == "Play"


def test_a_click_on_an_op_a_bar_or_a_phase_goes_there(open_page: Any) -> None:
    page = open_page("/learn/zero3")
    ready(page)
    page.click('.zs-op[data-step="8"]')
    assert shown(page)["op"] == "RS2"
    page.click('.zs-bar[data-step="2"]')
    assert shown(page)["op"] == "F0"
    page.click('.zs-chip[data-phase="update"]')
    assert shown(page)["op"] == "OPT"


def test_a_link_into_the_middle_opens_there(open_page: Any) -> None:
    page = open_page("/learn/zero3?step=9")
    ready(page)
    seen = shown(page)
    assert (seen["op"], seen["step"]) == ("AG1", "9")
    assert seen["sentence"].startswith("All-gather, once more")


def test_back_returns_to_the_step_that_was_left(open_page: Any) -> None:
    page = open_page("/learn/zero3")
    ready(page)
    page.keyboard.press("End")
    page.click("#nav-runs")
    page.wait_for_selector("#runs-table")
    page.go_back()
    page.wait_for_selector('#lesson[data-step="16"]')


def test_a_step_takes_at_most_a_quarter_of_a_second(open_page: Any) -> None:
    page = open_page("/learn/zero3")
    ready(page)
    took = page.evaluate(
        """() => {
          const began = performance.now();
          for (let i = 0; i < 16; i++)
            document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
          return (performance.now() - began) / 16;
        }"""
    )
    assert took < 50
    seconds = page.evaluate(
        """() => [...document.querySelectorAll(".zs-cell, .zs-cell i, .zs-membar i, .zs-bar")].map(
          (e) => Math.max(...getComputedStyle(e).transitionDuration.split(",").map(parseFloat)))"""
    )
    assert 0 < max(seconds) <= 0.25


def test_those_who_want_no_motion_get_none(open_page: Any) -> None:
    page = open_page("/learn/zero3", motion="reduce")
    ready(page)
    moving = page.evaluate(
        """() => [...document.querySelectorAll(".zs-cell i")].filter(
          (e) => getComputedStyle(e).transitionDuration !== "0s").length"""
    )
    assert moving == 0


def test_answers_unfold(open_page: Any) -> None:
    page = open_page("/learn/zero3")
    ready(page)
    page.get_by_role("button", name="Why does computing dX need W?").click()
    page.wait_for_selector("text=B2 waits for AG2, kept since the forward")
