"""Who owns the optimizer states: the issue's five parameters on eight ranks, and their cure."""

from __future__ import annotations

import pytest

from zerosim.figures.balance import states
from zerosim.figures.ownership import owners
from zerosim.figures.palette import RUN
from zerosim.scenario import load_scenario, run
from zerosim.trace import Trace

OWNED = 4096 * 4096 * 12
"""Adam's states of one of the five parameters."""


@pytest.fixture(scope="module")
def old() -> Trace:
    return run(load_scenario("five-parameters-old"))


@pytest.fixture(scope="module")
def cure() -> Trace:
    return run(load_scenario("five-parameters"))


def test_three_of_eight_ranks_have_no_optimizer_states_and_the_cure_gives_all_the_same(
    old: Trace, cure: Trace
) -> None:
    drawn = owners([("old", old), ("new", cure)], "light")
    assert drawn.sentence == (
        "old: 3 of 8 ranks own nothing, the most is 201 MB, 1.60 times the mean. "
        "new: every rank owns 126 MB."
    )
    before, after = drawn.figure.data
    assert list(before.x) == [str(rank) for rank in range(8)]
    assert list(before.y) == pytest.approx([OWNED / 1e6] * 5 + [0] * 3)
    assert list(after.y) == pytest.approx([5 * OWNED / 8 / 1e6] * 8)
    assert (before.name, before.marker.color) == ("old", RUN[0]["light"])


def test_the_balance_of_one_run_names_its_empty_ranks(old: Trace, cure: Trace) -> None:
    assert states(old, "dark").sentence.endswith(
        " Of the optimizer states 3 of 8 ranks own none, and the largest share is 201 MB, "
        "1.60 times the mean."
    )
    assert states(cure, "dark").sentence.startswith("Every rank owns ")


def test_the_mlp_of_the_issue_is_4_55_times_the_mean_with_two_empty_ranks() -> None:
    mlp = run(load_scenario("mlp-old"))
    assert owners([("mlp", mlp)], "light").sentence == (
        "mlp: 2 of 8 ranks own nothing, the most is 1.57 MB, 4.55 times the mean."
    )


def test_ranks_that_do_the_same_count_as_many_as_they_are() -> None:
    many = run(load_scenario("five-parameters-old", ["world_size=104"]))
    drawn = owners([("many", many)], "light")
    assert list(drawn.figure.data[0].x) == ["0 to 4", "5 to 103"]
    assert drawn.sentence.startswith("many: 99 of 104 ranks own nothing, ")
    assert drawn.sentence.endswith(" 20.80 times the mean.")


def test_runs_that_say_nothing_are_drawn_as_nothing(silent: Trace) -> None:
    drawn = owners([("silent", silent)], "light")
    assert drawn.sentence == "These runs do not say which optimizer states each rank owns."
