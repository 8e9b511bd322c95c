"""The page about FSDP1 shows the orders that its plans have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zerosim.scenario import load_scenario, plan_of

PAGE = (Path(__file__).parents[2] / "docs/schedules/fsdp1.md").read_text()
ROWS = re.findall(r"^\| `(\w+=\w+)` \| `([^`]+ OPT)` \|$", PAGE, re.MULTILINE)


def order(*words: str) -> str:
    made = plan_of(load_scenario("lesson-fsdp1", [*words, "steps=3"]))
    return made.order_of(made.steady_from)


def test_the_page_shows_the_order_of_six_settings() -> None:
    assert len(ROWS) == 6


@pytest.mark.parametrize(("setting", "shown"), ROWS)
def test_a_setting_has_the_order_that_the_page_shows(setting: str, shown: str) -> None:
    assert order(setting) == shown


def test_the_defaults_have_the_order_that_the_page_shows() -> None:
    assert f"`lesson-fsdp1`: `{order()}`" in PAGE
