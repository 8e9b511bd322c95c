"""Simulate: a form of every knob, and what comes of it, until it is kept as a run."""

from __future__ import annotations

from typing import Any

import pytest
from dash import Dash, no_update

from zerosim.scenario import load_scenario, variation_of
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knobs
from zerosim_app.components.controls import CONTROL, shown_of
from zerosim_app.components.preview import VIEWS
from zerosim_app.components.scenario_form import FIELDS
from zerosim_app.pages.simulate import collect, keep_run, layout, show
from zerosim_app.shelf import shelf
from zerosim_app.urlstate import View

START = ["lesson-zero3", "zero3"]


def inputs(page: Any) -> dict[str, Any]:
    """The controls of a form by the field they set."""
    found = [p for p in page.parts if isinstance(getattr(p, "id", None), dict)]
    return {p.id["path"]: p for p in found if p.id["type"] == CONTROL}


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_every_knob_of_the_schedule_is_there_with_default_and_unit(
    serving: Dash, tree: Any, schedule: str
) -> None:
    del serving
    page = tree(layout(set=f"schedule={schedule}"))
    controls = inputs(page)
    for knob in knobs(SCHEDULES[schedule].options):
        assert f"schedule.{knob.name}" in controls
        assert f"default {shown_of(knob.default) or 'none'}" in page.text
        assert knob.unit in page.text


def test_the_address_fills_the_form(serving: Dash, tree: Any) -> None:
    del serving
    controls = inputs(tree(layout(preset="gpt2-1.5b", set="prefetch=3 layers=12")))
    assert controls["schedule.prefetch"].value == "3"
    assert controls["workload.layers"].value == "12"
    assert controls["cluster.name"].value == "dgx-h100"


@pytest.mark.parametrize("words", ["prefetch=-1", "colour=red", "schedule=zero9", "layers=0"])
def test_an_address_that_makes_no_sense_says_why_and_shows_the_preset(
    serving: Dash, tree: Any, words: str
) -> None:
    del serving
    page = tree(layout(set=words))
    assert "This cannot be shown." in page.text
    assert inputs(page)["schedule.prefetch"].value == "0"


def test_one_word_that_makes_no_sense_costs_no_other(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout(set="schedule=ddp layers=5 colour=red bucket_cap_mb=9"))
    assert "'colour'" in page.text
    controls = inputs(page)
    assert controls["schedule.bucket_cap_mb"].value in {"9", "9.0"}
    assert controls["workload.layers"].value == "5"


def test_only_what_differs_from_the_preset_becomes_a_word() -> None:
    ids = [
        {"type": CONTROL, "path": path}
        for path in ("schedule.prefetch", "schedule.in_flight", "workload.layers", "numerics.dtype")
    ]
    words = collect(["2", "", "3", "bfloat16"], ids, START)
    assert words == ["schedule.prefetch=2", "numerics.dtype=bfloat16"]
    assert load_scenario("lesson-zero3", words).schedule.options == {"prefetch": 2}


def test_a_byte_convention_sets_what_the_form_does_not_say() -> None:
    ids = [{"type": CONTROL, "path": f"numerics.{name}"} for name in ("convention", "optimizer")]
    words = collect(["fsdp2-mixed", "sgd"], ids, START)
    assert words == ["numerics.convention=fsdp2-mixed", "numerics.optimizer=sgd"]
    numerics = load_scenario("lesson-zero3", words).numerics
    assert (numerics.storage_dtype, numerics.optimizer) == ("float32", "sgd")


def test_contention_and_slow_links_are_set_in_the_form() -> None:
    paths = ("cluster.overlap_tax", "cluster.link_sharing", "run.slow_links", "run.stragglers")
    ids = [{"type": CONTROL, "path": path} for path in paths]
    words = collect(["0.15", "false", "rank 1:0.5, 2:0.25", ""], ids, START)
    assert words == [
        "cluster.overlap_tax=0.15",
        "cluster.link_sharing=false",
        "run.slow_links=rank1:0.5,2:0.25",
    ]
    assert variation_of(load_scenario("lesson-zero3", words)).slow == (
        ("nvswitch", 1, 0.5),
        ("nvswitch", 2, 0.25),
    )
    assert {field.path for field in FIELDS} >= set(paths)


def test_a_caching_allocator_draws_what_is_reserved(tree: Any) -> None:
    assert (
        "are reserved" in tree(show(["allocator=caching"], "memory", "steady", "light", START)).text
    )


def test_another_schedule_than_the_presets_is_a_word_too() -> None:
    ids = [{"type": CONTROL, "path": "schedule.bucket_bytes"}]
    assert collect(["100"], ids, ["lesson-zero3", "zero2"]) == [
        "schedule=zero2",
        "schedule.bucket_bytes=100",
    ]


@pytest.mark.parametrize("schedule", list(SCHEDULES))
@pytest.mark.parametrize("view", list(VIEWS))
def test_every_view_of_every_schedule_shows_something(tree: Any, schedule: str, view: View) -> None:
    shown = tree(show([f"schedule={schedule}", "steps=3"], view, "steady", "light", START))
    assert "This cannot be shown." not in shown.text
    assert "Order of a rank" in shown.text


def test_a_knob_that_the_schedule_refuses_is_a_sentence(tree: Any) -> None:
    shown = tree(show(["prefetch=2", "in_flight=1"], "step", "steady", "dark", START))
    assert "schedule.in_flight is 1 with prefetch 2" in shown.text


def test_too_large_a_scenario_is_not_simulated_while_someone_types(tree: Any) -> None:
    assert "keep it as a run" in tree(show(["layers=9000"], "step", "steady", "dark", START)).text


def test_a_kept_scenario_is_a_run_and_opens(serving: Dash) -> None:
    del serving
    href, said = keep_run(1, "my try", ["prefetch=1"], START)
    assert (href, said) == ("/explore?run=my-try", "")
    assert shelf().load("my-try").meta.name == "my-try"
    again, _ = keep_run(1, "my try", [], START)
    assert again == "/explore?run=my-try-2"


def test_nothing_is_kept_before_the_button_or_if_it_makes_no_sense(serving: Dash) -> None:
    del serving
    assert keep_run(None, "", [], START) == (no_update, no_update)
    href, said = keep_run(1, "", ["layers=0"], START)
    assert href is no_update
    assert said.startswith("workload.layers is 0")


def test_numbers_in_groups_are_no_change_and_lists_of_numbers_stay_lists() -> None:
    ids = [{"type": CONTROL, "path": "schedule.reduce_bucket_size"}]
    assert collect(["500,000,000"], ids, ["lesson-zero3", "deepspeed-2"]) == [
        "schedule=deepspeed-2"
    ]
    caps = [{"type": CONTROL, "path": "schedule.bucket_cap_mb_list"}]
    assert collect(["25,100"], caps, ["lesson-zero3", "ddp"]) == [
        "schedule=ddp",
        "schedule.bucket_cap_mb_list=25,100",
    ]


def test_the_link_to_more_steps_keeps_what_the_address_says(tree: Any) -> None:
    shown = tree(show(["schedule=ddp"], "buckets", "first", "light", START))
    assert (
        "/simulate?preset=lesson-zero3&set=schedule%3Dddp+run.steps%3D2&view=buckets&shown=first"
        in shown.hrefs()
    )


def test_the_engine_is_told_of_and_presets_say_what_they_are(serving: Dash, tree: Any) -> None:
    del serving
    page = tree(layout(set="schedule=deepspeed-2"))
    assert "DeepSpeed: flat gradient slices too." in page.text
    assert "docs/schedules/deepspeed-1-2.md" in page.text
    (presets,) = [p for p in page.parts if getattr(p, "id", None) == "sim-preset"]
    says = {option["value"]: option["says"] for option in presets.data}
    assert says["gpt2-1.5b"] == "48 layers, 16 ranks of dgx-h100, zero3"
    assert says["five-parameters-old"] == "5 parameters, 8 ranks of dgx-a100, colossalai-2-old"


def test_a_list_of_parameters_has_sizes_and_no_layers(serving: Dash, tree: Any) -> None:
    del serving
    assert "workload.layers" not in inputs(tree(layout(preset="five-parameters")))
    assert "workload.sizes" in inputs(tree(layout(preset="five-parameters")))
    assert "workload.sizes" not in inputs(tree(layout()))
