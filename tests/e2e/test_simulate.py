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
    page.get_by_role("option", name="zero2 optimizer states and gradients sharded").click()
    order(page, "F0 F1 B1 RS1 B0 RS0 OPT AG0 AG1")
    assert page.get_by_role("textbox", name="bucket_bytes:").count() == 1
    assert page.get_by_role("textbox", name="in_flight:").count() == 0
    assert page.get_by_role("textbox", name="layers:").input_value() == "2"


def test_the_address_keeps_view_and_step_through_a_change_of_schedule(
    open_page: Any,
) -> None:
    page = open_page("/simulate?set=schedule%3Dddp+run.steps%3D3&view=buckets&shown=first")
    order(page, "F0 F1 F2 B2 B1 B0 AR2-0 OPT BCbuckets BCbuckets")
    assert page.locator("#sim-fig-buckets figcaption, #sim-fig-buckets").count() == 1
    page.get_by_text("Steady step", exact=True).click()
    order(page, "F0 F1 F2 B2 AR2 B1 B0 AR1-0 OPT")
    page.wait_for_function("!location.search.includes('shown=')")
    page.locator("#sim-schedule").click()
    page.get_by_role("option", name="fsdp2 torch's fully_shard").click()
    order(page, "AG0 F0 AG1 F1 AG2 F2 AG2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0 OPT")
    assert page.evaluate("new URLSearchParams(location.search).get('view')") == "buckets"
    assert "sends 3 buckets of 2.36 MB" in page.inner_text("#sim-preview")


def test_large_numbers_are_readable_and_a_changed_knob_stands_out(open_page: Any) -> None:
    page = open_page("/simulate?set=schedule%3Ddeepspeed-2")
    knob = page.get_by_role("textbox", name="reduce_bucket_size:")
    row = page.locator(".zs-field", has=knob)
    row.get_by_text("500 M elements", exact=True).wait_for()
    assert knob.input_value() == "500,000,000"
    knob.fill("2e6")
    row.get_by_text("2 M elements", exact=True).wait_for()
    assert "zs-changed" in row.get_attribute("class")
    page.wait_for_function("location.search.includes('reduce_bucket_size%3D2e6')")


def test_a_short_run_leads_to_the_steady_step(open_page: Any) -> None:
    page = open_page("/simulate?set=schedule%3Dddp&view=memory")
    page.get_by_role("link", name="Simulate 2 steps").click()
    page.get_by_text("Shown is step 2 of 2, a steady one").wait_for()
    assert page.evaluate("new URLSearchParams(location.search).get('view')") == "memory"


def test_a_scenario_is_kept_as_a_run_and_opens_on_the_timeline(open_page: Any) -> None:
    page = open_page("/simulate?set=prefetch=2")
    order(page, "AG0 AG1 AG2 F0 F1 F2 AG1 AG0 B2 RS2 B1 RS1 B0 RS0 OPT")
    page.get_by_label("Name of the run").fill("kept by hand")
    page.get_by_role("button", name="Keep as a run").click()
    page.wait_for_url("**/explore?run=kept-by-hand*")
    page.wait_for_selector(".zs-tl canvas")
