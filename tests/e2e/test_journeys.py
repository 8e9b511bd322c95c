"""Journeys: open, zoom, hover, select, compare, share a link, rename, delete."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

EXAMPLES = ("lesson-zero3", "gpt2-1.5b", "lesson-zero3-gloo", "five-parameters-old")
PROBES = 200


def drawn(page: Any) -> None:
    page.wait_for_function("window.zsTimeline")
    page.evaluate("zsTimeline.ready.then(() => true)")


def opened(page: Any, run: str) -> None:
    """Wait until the timeline is that of `run`, not the one of the page before."""
    page.wait_for_function(
        """(run) => {
          try { return zsTimeline.timeline().runs[0].about.id === run; }
          catch { return false; } // the old timeline is gone, the new one not there yet
        }""",
        arg=run,
    )


def view(page: Any) -> tuple[int, int]:
    window = page.evaluate("zsTimeline.view()")
    return window["t0"], window["t1"]


def width(page: Any) -> int:
    t0, t1 = view(page)
    return t1 - t0


def plot_middle(page: Any) -> tuple[float, float]:
    box = page.locator(".zs-tl-plot").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 3


def middle_of(page: Any, name: str) -> tuple[float, float]:
    """The middle of the first span of that name, scrolled into sight."""
    x, y = page.evaluate(
        """(name) => {
          for (let i = 0; i < zsTimeline.count(0); i++) {
            if (zsTimeline.span(0, i).name !== name) continue;
            zsTimeline.reveal(0, i);
            const { x, y, width, height } = zsTimeline.screenRect(0, i);
            return [x + width / 2, y + height / 2];
          }
        }""",
        name,
    )
    return x, y


def test_each_example_opens_from_the_start_page(open_page: Any, theme: str) -> None:
    page = open_page("/", theme)
    for example in EXAMPLES:
        page.locator(f'.zs-run[href="/explore?run={example}"]').click()
        page.wait_for_url(f"**/explore?run={example}*")
        opened(page, example)
        assert page.evaluate("zsTimeline.count(0)") > 0
        assert page.locator(".zs-tile").count() == (8 if example.endswith("gloo") else 9)
        page.get_by_role("link", name="Start").click()


def test_the_wheel_zooms_at_the_pointer(open_page: Any) -> None:
    page = open_page("/explore?run=gpt2-1.5b")
    drawn(page)
    before = width(page)
    page.mouse.move(*plot_middle(page))
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"zsTimeline.view().t1 - zsTimeline.view().t0 < {before} * 0.9")
    page.mouse.wheel(0, 4000)
    page.wait_for_function(f"zsTimeline.view().t1 - zsTimeline.view().t0 >= {before}")


def test_keys_zoom_move_and_fit(open_page: Any) -> None:
    page = open_page("/explore?run=gpt2-1.5b")
    drawn(page)
    whole = view(page)
    page.focus("#tl-root")
    page.keyboard.press("w")
    page.keyboard.press("w")
    zoomed = view(page)
    assert width(page) < 0.7 * (whole[1] - whole[0])
    page.keyboard.press("d")
    assert view(page)[0] > zoomed[0]
    page.keyboard.press("Home")
    assert view(page) == whole


@pytest.mark.parametrize("example", EXAMPLES)
def test_hover_names_the_right_span_in_200_of_200_probes(open_page: Any, example: str) -> None:
    page = open_page(f"/explore?run={example}&ranks=all")
    drawn(page)
    count = page.evaluate("zsTimeline.count(0)")
    choice = random.Random(7)
    assert page.evaluate(_PROBES, [choice.randrange(count) for _ in range(PROBES)]) == PROBES


_PROBES = """(firsts) => firsts.filter((first) => {
  // The next span that has a row, in a window in which it is at least a pixel wide.
  for (let n = zsTimeline.count(0), i = first, k = 0; k < n; i = (i + 1) % n, k++) {
    const span = zsTimeline.span(0, i);
    if (!span.duration_ns || !zsTimeline.screenRect(0, i)) continue;
    const air = span.duration_ns * 20;
    zsTimeline.setView(span.start_ns - air, span.start_ns + span.duration_ns + air);
    zsTimeline.reveal(0, i);
    const { x, y, width, height } = zsTimeline.screenRect(0, i);
    if (width < 1) return false;
    const plot = document.querySelector(".zs-tl-plot").getBoundingClientRect();
    const at = (Math.max(x, plot.left) + Math.min(x + width, plot.right)) / 2;
    const found = zsTimeline.spanAt(at, y + height / 2);
    return found?.i === i && found.name === span.name && found.rank === span.rank;
  }
  return false;
}).length"""


def test_a_selected_collective_is_seen_on_all_ranks(open_page: Any, theme: str) -> None:
    page = open_page("/explore?run=lesson-zero3&ranks=all", theme)
    drawn(page)
    page.mouse.click(*middle_of(page, "AG1"))
    page.wait_for_selector("#sel-members .ag-row")
    ranks = page.locator("#sel-members .ag-cell[col-id=rank]").all_inner_texts()
    assert ranks == ["0", "1", "2"]
    assert "AG1" in page.inner_text(".zs-span-name")
    assert "AG1" in page.inner_text('[data-part="live"]')
    page.focus("#tl-root")
    page.keyboard.press("Escape")
    page.wait_for_selector("#fig-step")


def test_simulated_and_real_stand_on_one_axis(open_page: Any, theme: str) -> None:
    page = open_page("/runs", theme)
    for name in ("lesson-zero3", "lesson-zero3-gloo"):
        page.locator(f'#runs-table .ag-row[row-id="{name}"] .ag-checkbox-input').click()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?a=*&b=*")
    drawn(page)
    assert page.evaluate("zsTimeline.timeline().runs.length") == 2
    assert page.evaluate("zsTimeline.count(0)") > 0
    assert page.evaluate("zsTimeline.count(1)") > 0
    page.wait_for_selector("#fig-accounts .trace")
    kinds = page.locator("#compare-matched .ag-cell[col-id=kind]").all_inner_texts()
    assert {"forward", "backward", "all-gather", "reduce-scatter"} <= set(kinds)


def test_a_deep_link_reloads_to_the_same_view(open_page: Any) -> None:
    page = open_page("/explore?run=gpt2-1.5b&tab=memory")
    drawn(page)
    page.wait_for_selector("#fig-memory")
    page.mouse.move(*plot_middle(page))
    page.mouse.wheel(0, -300)
    page.mouse.click(*middle_of(page, "B30"))
    page.wait_for_function("location.search.includes('t0=') && location.search.includes('sel=')")
    page.wait_for_timeout(300)
    link, window = page.url, view(page)
    said = page.inner_text('[data-part="live"]')
    page.reload()
    drawn(page)
    page.wait_for_selector("#fig-memory")
    assert view(page) == window
    assert page.inner_text('[data-part="live"]') == said
    page.wait_for_timeout(300)
    assert page.url == link


def test_a_tab_is_part_of_the_address(open_page: Any) -> None:
    page = open_page("/explore?run=lesson-zero3")
    drawn(page)
    page.get_by_role("tab", name="Operations").click()
    page.wait_for_selector("#tab-operations .ag-row")
    page.wait_for_function("location.search.includes('tab=operations')")
    page.get_by_role("tab", name="Selection").click()
    page.wait_for_function("!location.search.includes('tab=')")


def test_another_run_is_chosen_from_the_list(open_page: Any) -> None:
    page = open_page("/explore?run=lesson-zero3")
    drawn(page)
    page.click("#explore-run")
    page.get_by_role("option", name="gpt2-1.5b").click()
    page.wait_for_url("**/explore?run=gpt2-1.5b*")
    opened(page, "gpt2-1.5b")


def test_a_run_is_renamed_and_deleted_with_a_question(open_page: Any, library: Path) -> None:
    page = open_page("/runs")
    page.locator('#runs-table .ag-row[row-id="my-ddp"] .ag-checkbox-input').click()
    page.get_by_role("button", name="Rename").click()
    page.fill("#rename-to", "baseline")
    page.click("#rename-yes")
    page.wait_for_selector('#runs-table .ag-row[row-id="baseline"]')
    page.wait_for_selector('[role="dialog"]', state="detached")
    page.locator('#runs-table .ag-row[row-id="baseline"] .ag-checkbox-input').click()
    page.locator("#runs-delete").click()
    page.wait_for_selector("#delete-what >> text=baseline")
    page.click("#delete-yes")
    page.wait_for_selector('#runs-table .ag-row[row-id="baseline"]', state="detached")
    assert not (library / "baseline").exists()


def test_examples_cannot_be_renamed_or_deleted(open_page: Any) -> None:
    page = open_page("/runs")
    page.locator('#runs-table .ag-row[row-id="gpt2-1.5b"] .ag-checkbox-input').click()
    page.wait_for_selector("#runs-open:not([disabled])")
    assert page.is_disabled("#runs-rename")
    assert page.is_disabled("#runs-delete")
