"""Turning knobs: the order follows, another schedule brings other knobs, and a run is kept."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.e2e


def order(page: Any, words: str) -> None:
    page.wait_for_function(
        "(words) => document.querySelector('.zs-order code')?.textContent === words", arg=words
    )


def test_a_knob_changes_the_order_and_the_address(open_page: Any) -> None:
    page = open_page("/simulate")
    order(page, "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT")
    page.get_by_role("textbox", name="prefetch:").fill("1")
    order(page, "AG0 AG1 F0 AG2 F1 F2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0 OPT")
    page.wait_for_function("location.search === '?set=schedule.prefetch%3D1'")


def test_another_schedule_brings_its_own_knobs_and_keeps_the_model(open_page: Any) -> None:
    page = open_page("/simulate?set=layers=2")
    page.locator("#sim-schedule").click()
    page.get_by_role("option", name="zero2", exact=True).click()
    order(page, "F0 F1 B1 RS1 B0 RS0 OPT AG0 AG1")
    assert page.get_by_role("textbox", name="bucket_bytes:").count() == 1
    assert page.get_by_role("textbox", name="in_flight:").count() == 0
    assert page.get_by_role("textbox", name="layers:").input_value() == "2"


def test_a_scenario_is_kept_as_a_run_and_opens_on_the_timeline(open_page: Any) -> None:
    page = open_page("/simulate?set=prefetch=2")
    order(page, "AG0 AG1 AG2 F0 F1 F2 AG1 AG0 B2 RS2 B1 RS1 B0 RS0 OPT")
    page.get_by_label("Name of the run").fill("kept by hand")
    page.get_by_role("button", name="Keep as a run").click()
    page.wait_for_url("**/explore?run=kept-by-hand*")
    page.wait_for_selector(".zs-tl canvas")
