"""Load balance: a bar a rank, sums as the run says, ranges of ranks where there are many."""

from __future__ import annotations

import pytest

from zerosim.figures.balance import bars_of, busy, states
from zerosim.figures.palette import MEMORY, THEMES, Theme
from zerosim.scenario import load_scenario, run
from zerosim.trace import Meta, RankClass, StateBytes, Trace, make_trace


def test_each_rank_has_a_bar_of_its_states(two: Trace) -> None:
    figure = states(two, "light").figure
    assert [trace.name for trace in figure.data] == ["parameters", "gradients", "optimizer states"]
    assert list(figure.data[0].x) == ["0", "1"]
    assert [list(trace.y) for trace in figure.data] == [[2.0, 2.0], [2.0, 2.0], [4.0, 8.0]]
    assert figure.layout.yaxis.title.text == "owned states, kB"
    assert figure.layout.barmode == "stack"


def test_the_sentence_names_the_rank_that_owns_most(two: Trace) -> None:
    assert states(two, "light").sentence == (
        "Rank 1 owns the most, 12 kB, 1.20 times the mean; the least is 8 kB. "
        "Of the optimizer states the largest share is 8 kB, 1.33 times the mean."
    )


def test_an_even_load_is_called_even(two: Trace) -> None:
    assert busy(two, "light").sentence == "Every rank computes for 72 ms: the load is even."


@pytest.mark.parametrize("theme", THEMES)
def test_bars_have_the_colours_of_their_kind(two: Trace, theme: Theme) -> None:
    colours = [trace.marker.color for trace in states(two, theme).figure.data]
    assert colours == [MEMORY[k][theme] for k in ("parameters", "gradients", "optimizer")]


def test_busy_times_stand_side_by_side(two: Trace) -> None:
    figure = busy(two, "dark").figure
    assert [trace.name for trace in figure.data] == ["compute", "communication"]
    assert list(figure.data[0].y) == [72.0, 72.0]
    assert list(figure.data[1].y) == [28.0, 28.0]
    assert figure.layout.barmode == "group"


def test_hover_tells_bytes_as_text(two: Trace) -> None:
    assert list(states(two, "light").figure.data[2].customdata) == ["4 kB", "8 kB"]
    assert states(two, "light").figure.data[2].textposition == "none"


def test_many_equal_ranks_share_a_bar(thousand: Trace) -> None:
    figure = states(thousand, "light").figure
    assert list(figure.data[0].x) == ["0 to 999"]
    assert states(thousand, "light").sentence == "Every rank owns 8 kB: the load is even."


def test_a_run_that_says_nothing_is_drawn_as_nothing(silent: Trace) -> None:
    assert states(silent, "light").sentence == "This run does not say which bytes each rank owns."
    assert len(states(silent, "light").figure.data) == 0
    assert busy(silent, "light").sentence == "This run does not say when its ranks were busy."


def test_rows_of_parameters_leave_some_of_1024_ranks_with_less() -> None:
    rows = run(load_scenario("gpt2-1.5b", ["schedule=fsdp2", "world_size=1024"]))
    assert states(rows, "light").sentence == (
        "Each of ranks 0 to 799 owns the most, 28.4 MB, 1.12 times the mean; the least is 7.11 MB. "
        "Of the optimizer states the largest share is 21.3 MB, 1.17 times the mean."
    )
    assert busy(rows, "light").sentence == (
        "Every rank computes for about 246 ms: the load is even."
    )


def test_ranks_that_are_alike_but_scattered_are_named_by_two_and_counted() -> None:
    classes = tuple(RankClass(r, tuple((i, i) for i in range(r, 400, 4))) for r in range(4))
    meta = Meta(
        "scattered",
        "simulated",
        400,
        classes=classes,
        states=tuple(StateBytes(r, r, r, r) for r in range(4)),
    )
    (first, *_) = bars_of(make_trace({}, meta))
    assert first.label == "0, 4 and 98 more"
