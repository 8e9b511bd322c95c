"""Lanes: a bar an op, at its time, on the lane of its stream."""

from __future__ import annotations

import pytest

from zerosim.figures.lanes import MAX_BARS, lanes
from zerosim.figures.palette import THEMES, Theme, op_colour
from zerosim.kinds import Kind
from zerosim.scenario import load_scenario, run


@pytest.mark.parametrize("theme", THEMES)
def test_every_op_that_takes_time_is_a_bar_where_it_ran(theme: Theme) -> None:
    trace = run(load_scenario("lesson-zero3"))
    figure = lanes(trace, 0, theme).figure
    bars = [(name, y) for t in figure.data for (name, *_), y in zip(t.customdata, t.y, strict=True)]
    assert ("AG0", "all-gather") in bars
    assert ("F1", "compute") in bars
    assert ("RS2", "reduce-scatter") in bars
    assert not any(name.startswith("fill") for name, _ in bars)
    gathers = next(t for t in figure.data if t.name == "AG")
    assert gathers.marker.color == op_colour(Kind.ALL_GATHER, theme)
    assert gathers.base[0] == 0.0


def test_its_sentence_counts_ops_and_streams() -> None:
    sentence = lanes(run(load_scenario("lesson-zero3")), 0, "light").sentence
    assert sentence == "Step 1 of rank 0: 15 ops on 3 streams in 23.3 ms."


def test_neighbours_of_one_kind_are_one_bar_where_there_are_too_many() -> None:
    drawn = lanes(run(load_scenario("lesson-zero3", ["layers=200", "prefetch=2"])), 0, "light")
    bars = [
        (name, y)
        for t in drawn.figure.data
        for (name, *_), y in zip(t.customdata, t.y, strict=True)
    ]
    assert ("B199 to B0", "compute") in bars
    assert len(bars) < MAX_BARS
    assert drawn.sentence.startswith("Step 1 of rank 0: 1000 ops on 3 streams in ")
    assert "Neighbours of one kind are drawn as one bar" in drawn.sentence


def test_a_rank_that_is_not_there_has_nothing_to_draw() -> None:
    assert lanes(run(load_scenario("lesson-zero3")), 9, "light").sentence == (
        "Rank 9 has no complete step to draw."
    )
