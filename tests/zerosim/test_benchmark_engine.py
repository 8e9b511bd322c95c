"""The engine's benchmark runs, at sizes too small to judge it by."""

from __future__ import annotations

import pytest

from benchmarks.engine import Figure, Sizes, figures, shortest

SMALL = Sizes(
    ranks=16,
    few_ranks=8,
    layers=2,
    unfolded_ranks=4,
    rounds=1,
    cold_starts=1,
    beside_layers=2,
    micro_batches=2,
)


def test_every_figure_of_the_benchmark_is_measured() -> None:
    measured = figures(SMALL)
    assert len({figure.name for figure in measured}) == len(measured) == 15
    assert all(figure.value > 0 for figure in measured)
    assert sum(figure.at_least is not None for figure in measured) == 5
    assert sum(figure.at_most is not None for figure in measured) == 6


@pytest.mark.parametrize(
    ("value", "at_least", "at_most", "verdict"),
    [(2, 1, None, "pass"), (0.5, 1, None, "FAIL"), (2, None, 1, "FAIL"), (0.5, None, 1, "pass")],
)
def test_a_figure_says_on_which_side_of_its_bar_it_is(
    value: float, at_least: float | None, at_most: float | None, verdict: str
) -> None:
    figure = Figure("speed", value, at_least=at_least, at_most=at_most)
    assert figure.line.endswith(verdict)
    assert figure.passed is (verdict == "pass")


def test_a_figure_without_a_bar_only_informs() -> None:
    assert Figure("speed", 2.0, "k").line.split() == ["speed", "2.000", "k"]
    assert Figure("speed", 2.0).passed


def test_the_shortest_turn_counts() -> None:
    ticks = iter(
        [0, 0, 5, 9, 9, 9, 12, 20]
    )  # turn begins; run 0-5; over; turn begins; run 9-12; over
    best = shortest({"a": lambda: None}, 2, lambda: float(next(ticks)))
    assert best == {"a": 3.0}
