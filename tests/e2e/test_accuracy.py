"""From the navigation to the worst rows: filters, views and a series, all of it in the address."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.e2e
POINTS = "#acc-cloud .scatterlayer .points path"


def count(page: Any) -> int:
    page.wait_for_selector(POINTS)
    found: int = page.locator(POINTS).count()
    return found


def test_filters_choose_rows_and_stay_in_the_address(open_page: Any) -> None:
    page = open_page("/")
    page.get_by_role("link", name="Accuracy", exact=True).click()
    page.wait_for_url("**/accuracy")
    every = count(page)
    page.locator("#acc-source").click()
    page.get_by_role("option", name="internevo").click()
    page.wait_for_function("location.search === '?source=internevo'")
    page.wait_for_function(
        "(n) => { const found = document.querySelectorAll(n[0]).length; return found && found < n[1]; }",
        arg=[POINTS, every],
    )
    page.wait_for_selector("#acc-rows .ag-cell[col-id=source] >> text=internevo")
    page.reload()
    page.wait_for_selector("#acc-cloud .legendtext >> text=internevo")
    assert page.locator("#acc-cloud .legendtext").count() == 1


def test_a_point_says_which_row_it_is_and_how_far_off(open_page: Any) -> None:
    page = open_page("/accuracy?source=internevo")
    count(page)
    page.locator(POINTS).first.hover(force=True)
    page.wait_for_selector("#acc-cloud .hoverlayer >> text=predicted")
    assert "measured" in page.text_content("#acc-cloud .hoverlayer")


def test_a_series_of_collectives_opens_from_its_address(open_page: Any, theme: str) -> None:
    page = open_page("/accuracy?view=collectives&series=h200_x8_stas", theme)
    page.wait_for_selector("#acc-busbw .scatterlayer .points path")
    page.get_by_role("heading", name="h200_x8_stas").wait_for()
    assert not page.locator("#acc-source").is_visible()
    page.get_by_text("Scaling", exact=True).click()
    page.wait_for_selector("#acc-scaling .scatterlayer .points path")
    page.wait_for_function("location.search.includes('view=scaling')")


def test_the_rows_that_are_left_out_have_reasons(open_page: Any) -> None:
    page = open_page("/accuracy?view=left")
    page.wait_for_selector("#acc-left .ag-cell[col-id=why]")
    page.wait_for_selector("#acc-filled .ag-cell >> text=ag_dtype = bfloat16")


def test_a_simulation_shows_its_error_band_and_leads_to_the_runs(open_page: Any) -> None:
    page = open_page("/simulate?preset=llama2-7b&set=world_size%3D64+cluster%3Ddgx-a100")
    page.wait_for_selector("#sim-band >> text=measured FSDP/ZeRO-3 runs nearest to it: A100")
    page.get_by_role("link", name="All measured runs").click()
    page.wait_for_url("**/accuracy")
