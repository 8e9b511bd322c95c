"""Accounts as bars: each bar sums to its step, in the colours of the ops."""

from __future__ import annotations

import pytest

from zerosim.analysis.accounting import Accounting, account
from zerosim.figures.palette import THEMES, Theme, op_colour
from zerosim.figures.waterfall import explain, waterfall
from zerosim.kinds import Kind
from zerosim.scenario import load_scenario, run
from zerosim.trace import Trace

MS = 1_000_000
LOST = Accounting(
    rank=3,
    step=2,
    step_ns=100 * MS,
    compute_ns=50 * MS,
    optimizer_ns=10 * MS,
    exposed_ns=(("all_gather", 12 * MS), ("reduce_scatter", 5 * MS)),
    wait_ns=13 * MS,
    launch_ns=6 * MS,
    idle_ns=4 * MS,
)
HIDDEN = Accounting(0, 1, 60 * MS, 50 * MS, 10 * MS, (), 0, 0, 0)


@pytest.mark.parametrize("theme", THEMES)
def test_each_bar_sums_to_its_step(theme: Theme) -> None:
    figure = waterfall([("A", LOST), ("B", HIDDEN)], theme).figure
    assert sum(trace.x[0] for trace in figure.data) == pytest.approx(100.0)
    assert sum(trace.x[1] for trace in figure.data) == pytest.approx(60.0)
    assert figure.layout.barmode == "stack"


def test_accounts_stand_in_a_fixed_order_and_empty_ones_are_left_out() -> None:
    names = [trace.name for trace in waterfall([("A", LOST)], "light").figure.data]
    assert names == [
        "compute",
        "optimizer",
        "all-gather",
        "reduce-scatter",
        "wait",
        "launch",
        "idle",
    ]
    assert [t.name for t in waterfall([("B", HIDDEN)], "light").figure.data] == [
        "compute",
        "optimizer",
    ]


def test_exposed_collectives_have_their_op_colours() -> None:
    by_name = {t.name: t for t in waterfall([("A", LOST)], "dark").figure.data}
    assert by_name["all-gather"].marker.color == op_colour(Kind.ALL_GATHER, "dark")
    assert by_name["idle"].marker.pattern.shape == "/"


def test_small_parts_have_no_label_but_a_hover() -> None:
    by_name = {t.name: t for t in waterfall([("A", LOST)], "light").figure.data}
    assert by_name["compute"].text[0] == "50 ms"
    assert by_name["idle"].text[0] == ""
    assert by_name["idle"].customdata[0] == "4 ms"


def test_the_caption_lists_the_accounts() -> None:
    assert waterfall([("mine", HIDDEN)], "light").sentence == (
        "mine, rank 0: 60 ms = compute 50 ms, optimizer 10 ms."
    )


def test_the_reason_names_the_largest_loss() -> None:
    assert explain(LOST) == (
        "of 100 ms, 40 ms (40 %) are not computing, chiefly transfers that nothing hides "
        "(17 ms, 12 ms of it all-gather)."
    )
    waiting = Accounting(0, 1, 100, 40, 0, (("all_gather", 10),), 30, 0, 20)
    assert explain(waiting) == (
        "of 100 ns, 60 ns (60 %) are not computing, chiefly waiting for other ranks (30 ns)."
    )


def test_a_step_that_hides_everything_is_praised() -> None:
    assert explain(HIDDEN) == (
        "all communication is hidden: the device computes for the whole step of 60 ms."
    )


def test_a_late_rank_shows_as_waiting(skewed: Trace) -> None:
    found = account(skewed)
    assert found is not None
    assert found.wait_ns == 5 * MS
    by_name = {t.name: t for t in waterfall([("A", found)], "light").figure.data}
    assert by_name["wait"].x[0] == 5.0


def test_runs_without_a_complete_step_have_no_accounts(silent: Trace) -> None:
    drawn = waterfall([("silent", account(silent))], "light")
    assert len(drawn.figure.data) == 0
    assert drawn.sentence.startswith("No step of these runs is complete")


def test_a_long_name_has_room_and_a_broadcast_is_told_from_a_gather() -> None:
    old = account(run(load_scenario("five-parameters-old")))
    figure = waterfall([("A · five-parameters-old", old)], "light").figure
    assert figure.layout.margin.l == 185
    patterns = {bar.name: bar.marker.pattern.shape for bar in figure.data}
    assert (patterns["broadcast"], patterns["reduce"], patterns["all-reduce"]) == ("/", "/", "")
