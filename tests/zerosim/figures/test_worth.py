"""Mechanisms as bars: how much worse it is without each, and one that does harm stands out."""

from __future__ import annotations

import pytest

from zerosim.figures.palette import OPS
from zerosim.figures.worth import worth
from zerosim.validation.ablation import Ablated
from zerosim.validation.score import Errors


def without(mechanism: str, mean: float) -> Ablated:
    errors = Errors(n_rows=1, n_sources=1, median=mean, mean=mean, p90=mean, bias=0.0)
    return Ablated(mechanism, mechanism, True, {"test": errors}, {"test": None})


def test_the_most_valuable_is_on_top_and_one_that_does_harm_has_another_colour() -> None:
    drawn = worth(
        [without("", 0.05), without("host", 0.04), without("overlap", 0.2)], "test", "light"
    )
    (bar,) = drawn.figure.data
    assert list(bar.y) == ["overlap", "host"]
    assert list(bar.x) == pytest.approx([15, -1])
    assert list(bar.marker.color) == [OPS["forward"].light, OPS["reduce_scatter"].light]
    assert drawn.sentence == (
        "test: 5.0% with all mechanisms; without one: overlap +15.0, host -1.0 points."
    )


def test_without_an_ablation_there_is_a_sentence() -> None:
    assert worth([], "test", "dark").sentence.startswith("Nobody has taken mechanisms out")
