"""The example runs inside the package: what the simulator makes today, and a real run beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import zerosim
from zerosim.analysis.comparison import compare
from zerosim.analysis.summary import summarize
from zerosim.scenario import load_scenario, run
from zerosim.store import list_runs, load_run

EXAMPLES = Path(zerosim.__file__).parent / "examples"


def test_the_package_ships_five_examples_and_all_of_them_load() -> None:
    stored = list_runs(EXAMPLES)
    assert [(s.id, s.problem) for s in stored] == [
        ("five-parameters", None),
        ("five-parameters-old", None),
        ("gpt2-1.5b", None),
        ("lesson-zero3", None),
        ("lesson-zero3-gloo", None),
    ]


@pytest.mark.parametrize(
    "name", ["lesson-zero3", "gpt2-1.5b", "five-parameters-old", "five-parameters"]
)
def test_a_simulated_example_is_what_the_simulator_makes_today(name: str) -> None:
    stored = load_run(EXAMPLES / name)
    fresh = run(load_scenario(name))
    assert stored.meta == fresh.meta, "run `make examples`"
    assert stored.spans.equals(fresh.spans)
    assert stored.samples.equals(fresh.samples)


def test_the_gloo_example_ran_for_real_and_in_the_order_of_the_lesson() -> None:
    real = load_run(EXAMPLES / "lesson-zero3-gloo")
    assert real.meta.source == "measured"
    assert real.meta.finished
    assert real.meta.world_size == 3
    lesson = "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"
    assert summarize(real)["order"] == lesson


def test_the_real_example_and_the_simulated_lesson_match_op_by_op() -> None:
    result = compare(load_run(EXAMPLES / "lesson-zero3"), load_run(EXAMPLES / "lesson-zero3-gloo"))
    assert result["matched_share"] == 1.0
