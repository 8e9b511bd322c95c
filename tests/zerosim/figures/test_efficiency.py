"""Scaling efficiency: a line a group, the worst on top, and bandwidths of a series with its model."""

from __future__ import annotations

import pytest

from zerosim.figures.busbw import busbw
from zerosim.figures.efficiency import efficiency
from zerosim.validation.collectives import Predicted
from zerosim.validation.scaling import Efficiency

GOOD = Efficiency("G1", "one", "test", "yes", 8, 64, predicted=0.95, measured=0.94)
BAD = Efficiency("G2", "two", "calib", "yes", 8, 1024, predicted=0.9, measured=0.7)


def test_the_worst_group_is_on_top_and_named_in_words() -> None:
    drawn = efficiency([GOOD, BAD], "light")
    measured, predicted = drawn.figure.data[-2:]
    assert list(measured.y) == ["two G2, 8 → 1024", "one G1, 8 → 64"]
    assert list(measured.x) == pytest.approx([70, 94])
    assert list(predicted.x) == pytest.approx([90, 95])
    assert drawn.sentence.endswith(
        "the error is 10.5 points in the middle, and 20.0 at the most (two, 8 to 1024 GPUs)."
    )


def test_no_group_is_said_in_words() -> None:
    assert efficiency([], "dark").sentence.startswith("No group of runs")


def row(
    kind: str, nbytes: int, predicted_s: float, measured_s: float, n_ranks: int = 2
) -> Predicted:
    return Predicted(
        row_id="r",
        series="lab",
        split="test",
        kind=kind,
        n_ranks=n_ranks,
        nbytes=nbytes,
        predicted_s=predicted_s,
        measured_s=measured_s,
        cluster="dgx-h100",
        launcher="one process a GPU",
        by="ring, Simple",
    )


def test_points_are_measured_and_lines_predicted_in_bus_bandwidth() -> None:
    rows = [row("all_gather", 2**30, 0.01, 0.02), row("all_gather", 2**20, 1e-4, 1e-4)]
    drawn = busbw(rows, "light")
    measured, predicted = drawn.figure.data
    assert (measured.mode, predicted.mode) == ("markers", "lines")
    assert list(measured.x) == [2**20, 2**30]
    assert list(measured.y) == pytest.approx([2**20 / 2e5, 2**30 / 4e7], rel=1e-6)
    assert predicted.y[1] == pytest.approx(2**30 / 2e7)
    assert "off by 25.0% on average and by 50.0% at the most, at 1 GiB" in drawn.sentence


def test_collectives_of_one_colour_are_told_apart_by_their_dashes() -> None:
    rows = [
        row(kind, 2**20 * size, 1, 1) for kind in ("all_gather", "broadcast") for size in (1, 2)
    ]
    lines = [trace for trace in busbw(rows, "light").figure.data if trace.mode == "lines"]
    assert lines[0].line.color == lines[1].line.color
    assert [line.line.dash for line in lines] == ["solid", "dash"]


def test_one_size_among_several_numbers_of_ranks_is_drawn_over_these() -> None:
    rows = [row("all_reduce", 2**30, 0.01, 0.01, n_ranks) for n_ranks in (8, 4, 6)]
    figure = busbw(rows, "light").figure
    assert [list(trace.x) for trace in figure.data] == [[4, 6, 8], [4, 6, 8]]
    assert figure.layout.xaxis.title.text == "ranks"
    assert figure.layout.yaxis.type is None


def test_a_row_alone_is_a_point_and_a_cross() -> None:
    measured, predicted = busbw([row("all_reduce", 2**30, 0.01, 0.02)], "light").figure.data
    assert (measured.marker.symbol, predicted.marker.symbol) == ("circle-open", "x-thin")


def test_a_series_without_a_prediction_says_so() -> None:
    assert busbw([], "light").sentence == "This series has no row that could be predicted."
