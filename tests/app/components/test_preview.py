"""A preview: figures, order, and a word where an engine is still warming up."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.errors import ScenarioError
from zerosim.scenario import load_scenario
from zerosim_app.components.preview import SHOWN, VIEWS, preview
from zerosim_app.urlstate import Shown


@pytest.mark.parametrize("view", [*VIEWS, "nonsense"])
def test_each_view_has_the_figures_and_the_order(tree: Any, view: str) -> None:
    shown = tree(preview(load_scenario("lesson-zero3"), view, "light"))
    assert "Step 23.3 ms" in shown.text
    assert "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT" in shown.text


def test_a_run_shorter_than_its_warm_up_says_so_and_links_to_a_longer_one(tree: Any) -> None:
    scenario = load_scenario("lesson-zero3", ["schedule=ddp"])
    shown = tree(preview(scenario, "step", "light", longer=lambda n: f"/simulate?steps={n}"))
    assert (
        "Shown is step 1 of 1, a warm-up: this engine does something else from step 2" in shown.text
    )
    assert "/simulate?steps=2" in shown.hrefs()


@pytest.mark.parametrize(
    ("steps", "order"),
    [
        ("steady", "F0 F1 F2 B2 AR2 B1 B0 AR1-0 OPT"),
        ("first", "F0 F1 F2 B2 B1 B0 AR2-0 OPT BCbuckets BCbuckets"),
        ("all", "F0 F1 F2 B2 AR2 B1 B0 AR1-0 OPT"),
    ],
)
def test_the_steady_step_is_shown_or_the_first_or_all(tree: Any, steps: Shown, order: str) -> None:
    scenario = load_scenario("lesson-zero3", ["schedule=ddp", "steps=3"])
    assert f"Order of a rank  {order} " in tree(preview(scenario, "memory", "light", steps)).text


def test_what_is_shown_is_said(tree: Any) -> None:
    scenario = load_scenario("lesson-zero3", ["schedule=ddp", "steps=3"])
    said = {s: tree(preview(scenario, "step", "light", s)).text for s in SHOWN}
    assert "Shown is step 2 of 3, a steady one; the first step warms" in said["steady"]
    assert "Shown is step 1 of 3, a warm-up: later steps differ." in said["first"]
    assert "Shown are all steps." in said["all"]


def test_the_figures_are_those_of_one_step(tree: Any) -> None:
    scenario = load_scenario("lesson-zero3", ["steps=3"])
    one, every = (tree(preview(scenario, "buckets", "light", s)).text for s in ("steady", "all"))
    assert "Rank 0 sends 3 buckets" in one
    assert "Rank 0 sends 9 buckets" in every


def test_a_schedule_without_buckets_says_so_in_a_sentence(tree: Any) -> None:
    alone = load_scenario("lesson-zero3", ["schedule=fsdp2", "shard_mesh_size=1"])
    shown = tree(preview(alone, "buckets", "light"))
    assert "No gradient waits in a bucket here" in shown.text


def test_it_says_whether_the_device_holds_it(tree: Any) -> None:
    small = tree(preview(load_scenario("lesson-zero3"), "step", "light")).text
    assert "Fits classroom GPU yes 1.4 % of 1 GB" in small
    large = tree(preview(load_scenario("lesson-zero3", ["hidden=8192"]), "step", "light")).text
    assert "Fits classroom GPU no" in large


def test_a_long_order_shows_how_it_begins_and_ends(tree: Any) -> None:
    shown = tree(preview(load_scenario("gpt2-1.5b"), "step", "light")).text
    order = shown.partition("Order of a rank ")[2]
    assert order.strip().startswith("AGroot")
    assert " ops … " in order
    assert "OPT" in order.partition("Shown is")[0]


def test_what_takes_long_is_refused() -> None:
    with pytest.raises(ScenarioError, match="keep it as a run, or lower layers"):
        preview(load_scenario("lesson-zero3", ["layers=9000"]), "step", "light")
