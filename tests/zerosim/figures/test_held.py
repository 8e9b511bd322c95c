"""Memory as points: bytes of a rank, measured against predicted; numbers of parameters stay out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zerosim.figures.held import held
from zerosim.figures.palette import THEMES, Theme
from zerosim.validation.memory import MemoryScore

ROW = MemoryScore(
    row_id="M1",
    source_id="one",
    split="test",
    figure="reserved",
    predicted=22_000_000_000,
    measured=20_000_000_000,
    defaults=(("attention", "flash", "what runs on this GPU use"),),
)


def points(figure: Any) -> list[Any]:
    return [trace for trace in figure.data if trace.customdata is not None]


@pytest.mark.parametrize("theme", THEMES)
def test_a_figure_is_a_point_in_gigabytes(theme: Theme) -> None:
    (one,) = points(held([ROW], theme).figure)
    assert (list(one.x), list(one.y)) == ([20.0], [22.0])
    assert one.customdata[0] == (
        "<b>M1</b> one (test)<br>reserved: predicted 22 GB, measured 20 GB, +9.5 %"
        "<br>assumed attention = flash"
    )


def test_the_sentence_names_the_figure_that_is_furthest_off() -> None:
    far = replace(ROW, row_id="M2", figure="device", predicted=10_000_000_000)
    assert held([ROW, far], "light").sentence.startswith(
        "2 figures, half of them within 39.4%; the furthest off is M2 (one, device), by -69 %."
    )


def test_parameters_are_no_bytes() -> None:
    largest = replace(ROW, figure="largest")
    assert held([largest], "light").sentence.startswith("No measured memory is left")
    assert len(points(held([ROW, largest], "light").figure)) == 1
