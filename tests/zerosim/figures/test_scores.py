"""Scores as figures: points on both sides of the diagonal, errors beside the null model's, in words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from zerosim.figures.palette import SOURCES, THEMES, Theme
from zerosim.figures.scores import bars, cloud, others, percent, spread
from zerosim.validation.board import Peer, Suite
from zerosim.validation.score import Errors, Scored

ROW = Scored(
    row_id="S1",
    source_id="one",
    split="test",
    suite="",
    simulatable="yes",
    scaling_group=None,
    n_gpus=8,
    tokens=1,
    predicted_s=1.04,
    measured_s=1.0,
    null_s=1.5,
    facts={"source": "one", "gpu": "A100", "model": "gpt"},
    defaults=(("ag_dtype", "bfloat16", "travels as it computes"),),
)
SLOW = replace(ROW, row_id="S2", predicted_s=1.5)
CALIB = replace(ROW, row_id="S3", source_id="two", split="calib", simulatable="partial",
                predicted_s=0.9, facts={**ROW.facts, "source": "two"})  # fmt: skip
ROWS = [ROW, SLOW, CALIB]


def points(figure: Any) -> list[Any]:
    return [trace for trace in figure.data if trace.customdata is not None]


@pytest.mark.parametrize("theme", THEMES)
def test_every_row_is_a_point_coloured_by_source_with_the_symbol_of_its_split(theme: Theme) -> None:
    one, two = points(cloud(ROWS, ["one", "two"], theme).figure)
    assert (list(one.x), list(one.y)) == ([1.0, 1.0], [1.04, 1.5])
    assert (one.marker.color, two.marker.color) == (SOURCES[0][theme], SOURCES[1][theme])
    assert (one.marker.symbol, two.marker.symbol) == ("circle", "diamond-open")
    assert (one.marker.opacity, two.marker.opacity) == ((1.0, 1.0), (0.4,))


def test_the_pointer_shows_row_source_error_and_what_was_assumed() -> None:
    (one,) = points(cloud([ROW], ["one"], "light").figure)
    assert one.customdata[0] == (
        "<b>S1</b> one (test)<br>gpt, A100, 8 GPUs<br>"
        "predicted 1.04 s, measured 1 s: +3.9 %<br>assumed ag_dtype = bfloat16"
    )


def test_both_axes_have_the_same_span_and_the_sentence_counts() -> None:
    drawn = cloud(ROWS, ["one", "two"], "light")
    assert drawn.figure.layout.xaxis.range == drawn.figure.layout.yaxis.range
    assert drawn.sentence.startswith("Of 3 rows 1 are predicted within 5 % and 2 within 20 %; ")


def test_a_source_beyond_the_colours_has_another_symbol() -> None:
    sources = [f"s{i}" for i in range(len(SOURCES))] + ["one"]
    (one,) = points(cloud([ROW], sources, "light").figure)
    assert (one.marker.color, one.marker.symbol) == (SOURCES[0]["light"], "square")


def test_the_spread_stands_beside_the_null_models_and_ends_are_cut() -> None:
    far = replace(ROW, predicted_s=10.0)
    null, ours = spread([ROW, far], "light").figure.data
    assert list(ours.x) == pytest.approx([math.log(1.04), 0.6])
    assert list(null.x) == pytest.approx([math.log(1.5)] * 2)


def test_bars_have_a_median_and_reach_to_the_90th_percentile() -> None:
    ours, null = bars(ROWS, "source", "light").figure.data
    assert list(ours.y) == ["one", "two"]
    assert list(ours.x) == pytest.approx([100 * math.log(1.04), -100 * math.log(0.9)])
    assert ours.error_x.array[0] == pytest.approx(100 * math.log(1.5 / 1.04))
    assert list(null.x) == pytest.approx([100 * math.log(1.5)] * 2)


def test_no_row_is_said_in_words() -> None:
    for drawn in (cloud([], [], "light"), spread([], "light"), bars([], "source", "light")):
        assert drawn.sentence == "No row is left: choose fewer filters."


def test_others_stand_beside_us_with_their_rows() -> None:
    found = Errors(n_rows=5, n_sources=1, median=0.1, mean=0.2, p90=0.3, bias=0.0)
    suite = Suite("fsdp", "", found, None, (), (), (), None)
    (bar,) = others(suite, [Peer("a peer", "67 rows", 0.15, "")], "light").figure.data
    assert list(bar.y) == ["simulated here, 5 rows", "a peer *, 67 rows"]
    assert list(bar.x) == pytest.approx([20.0, 15.0])


def test_an_error_has_its_sign() -> None:
    assert (percent(0.123), percent(-0.05)) == ("+12.3 %", "-5.0 %")
