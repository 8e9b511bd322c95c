"""The scoreboard that is shipped is what the code computes: its rows by sample, its scores all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.scenario import Scenario, cluster_of, plan_of
from zerosim.validation.board import board_of
from zerosim.validation.carried import carried_collectives
from zerosim.validation.carried_memory import carried_memory
from zerosim.validation.collectives import collective_scores
from zerosim.validation.memory import memory_scores
from zerosim.validation.published import published
from zerosim.validation.records import plain, to_text
from zerosim.validation.rows import read_steps
from zerosim.validation.score import Scored
from zerosim.validation.trial import steady_seconds

REMEDY = "the shipped scoreboard is old: run `make accuracy`"
MINE = published()


def work(row: Scored) -> int:
    told = row.scenario["workload"]
    return int(told.get("layers", 3)) * int(told.get("micro_batches", 1))


def sampled() -> list[Scored]:
    """The quickest row of every source and device."""
    found: dict[tuple[str, str], Scored] = {}
    for row in sorted(MINE.steps.rows, key=lambda row: (work(row), row.row_id)):
        found.setdefault((row.source_id, row.facts["gpu"]), row)
    return list(found.values())


@pytest.mark.parametrize("row", sampled(), ids=lambda row: row.row_id)
def test_a_row_of_every_source_and_device_is_what_the_simulator_says_today(row: Scored) -> None:
    scenario = Scenario.from_dict(row.scenario)
    seconds = steady_seconds(plan_of(scenario), cluster_of(scenario))
    assert row.predicted_s == pytest.approx(seconds, rel=1e-8), REMEDY


def test_the_scores_are_those_of_its_rows() -> None:
    again = board_of(MINE.steps.rows, MINE.steps.left_out, MINE.steps.null)
    assert_same(again, MINE.steps)


def test_the_collectives_are_what_their_model_says_today() -> None:
    assert_same(collective_scores(carried_collectives().rows), MINE.collectives)


def test_the_memory_is_what_plans_say_today() -> None:
    assert_same(memory_scores(carried_memory()), MINE.memory)


def assert_same(again: object, shipped: object) -> None:
    """The same words, and numbers that differ by rounding alone."""
    mine, theirs = parts(plain(again)), parts(plain(shipped))
    numbers = {place: x for place, x in mine.items() if isinstance(x, float)}
    assert {k: x for k, x in mine.items() if k not in numbers} == {
        k: x for k, x in theirs.items() if k not in numbers
    }, REMEDY
    assert numbers == pytest.approx({k: theirs[k] for k in numbers}, rel=1e-6, abs=1e-7), REMEDY


def parts(value: object, place: str = "") -> dict[str, object]:
    """Every scalar of a document by its place."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = dict(enumerate(value)).items()
    else:
        return {place: value}
    return {k: v for name, item in items for k, v in parts(item, f"{place}/{name}").items()}


def test_the_document_is_the_same_bytes_each_time_and_names_no_place() -> None:
    text = to_text(MINE)
    assert text == to_text(MINE)
    for word in ("/work/", "/home/", "/root/"):
        assert word not in text


def test_every_row_has_a_source() -> None:
    assert [row.row_id for row in MINE.steps.rows if not row.source] == []


def test_measured_times_are_those_of_the_table(measured: Path) -> None:
    rows, _ = read_steps(measured / "step_times.csv")
    table = {row.row_id: row.measured_s for row in rows}
    assert {r.row_id: r.measured_s for r in MINE.steps.rows} == pytest.approx(
        {r.row_id: table[r.row_id] for r in MINE.steps.rows}, rel=1e-8
    )
