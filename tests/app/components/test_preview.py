"""A preview: figures, order, and a word where an engine is still warming up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zerosim.errors import ScenarioError
from zerosim.scenario import load_scenario, run
from zerosim_app.components import preview as module
from zerosim_app.components.preview import VIEWS, preview


@pytest.mark.parametrize("view", [*VIEWS, "nonsense"])
def test_each_view_has_the_figures_and_the_order(tree: Any, view: str) -> None:
    shown = tree(preview(load_scenario("lesson-zero3"), view, "light"))
    assert "Step 23.3 ms" in shown.text
    assert "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT" in shown.text


def test_a_run_shorter_than_its_warm_up_says_so(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = run(load_scenario("lesson-zero3"))
    warming = replace(trace, meta=replace(trace.meta, steady_from=2))
    monkeypatch.setattr(module, "run", lambda _: warming)
    shown = tree(preview(load_scenario("lesson-zero3"), "step", "light"))
    assert "This engine warms up: ask for 2 steps or more." in shown.text


def test_what_takes_long_is_refused() -> None:
    with pytest.raises(ScenarioError, match="keep it as a run, or lower layers"):
        preview(load_scenario("lesson-zero3", ["layers=9000"]), "step", "light")
