"""The engines hold each other: SimPy, folded or not, and max-plus give the same integers on any program."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.programs import cases
from zerosim.engine import Variation, kernels_overlap, transfers_overlap
from zerosim.engine.events import run
from zerosim.engine.folding import Folded, fold, unfolded
from zerosim.engine.maxplus import solve
from zerosim.engine.program import Program, Times
from zerosim.engine.stretched import settle
from zerosim.engine.variation import durations, shares_left
from zerosim.scenario import load_scenario
from zerosim.scenario import run as simulate


def by_rank(times: Times, folded: Folded) -> tuple[list[list[int]], ...]:
    """Issue, start and end of every op on every rank."""
    columns = folded.class_of
    return tuple(t[:, columns].tolist() for t in (times.issued, times.start, times.end))


def max_plus(program: Program, folded: Folded, variation: Variation) -> tuple[list[list[int]], ...]:
    given = durations(program, variation, folded.representatives)
    return by_rank(solve(program, folded, given), folded)


def events(
    program: Program, folded: Folded, variation: Variation, *, fluid: bool = False
) -> tuple[list[list[int]], ...]:
    given = durations(program, variation, folded.representatives)
    every = shares_left(variation, program.n_ranks)
    shares = {link: left[list(folded.representatives)].tolist() for link, left in every.items()}
    return by_rank(run(program, folded, given, fluid=fluid, shares=shares), folded)


@given(cases())
@settings(max_examples=300)
def test_folded_simpy_max_plus_and_unfolded_simpy_agree_bitwise(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded, plain = fold(program, variation), unfolded(program)
    reference = events(program, plain, variation)
    assert events(program, folded, variation) == reference
    assert max_plus(program, folded, variation) == reference
    assert max_plus(program, plain, variation) == reference


@given(cases(rings=True))
@settings(max_examples=200)
def test_simpy_and_max_plus_agree_bitwise_on_message_level_rings(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded, plain = fold(program, variation), unfolded(program)
    reference = events(program, plain, variation)
    assert max_plus(program, plain, variation) == reference
    assert max_plus(program, folded, variation) == reference
    assert events(program, folded, variation) == reference


@given(cases(loads=True))
@settings(max_examples=200)
def test_sharing_links_changes_nothing_when_no_transfers_overlap(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded = fold(program, variation)
    alone = durations(program, variation, folded.representatives)
    times = solve(program, folded, alone)
    if not transfers_overlap(program, times, alone):
        assert events(program, folded, variation, fluid=True) == by_rank(times, folded)


@given(cases(loads=True))
@settings(max_examples=200)
def test_sharing_links_never_ends_a_step_earlier_and_never_later_than_one_after_the_other(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded = fold(program, variation)
    alone = max(map(max, max_plus(program, folded, variation)[2]))
    shared = max(map(max, events(program, folded, variation, fluid=True)[2]))
    every = durations(program, variation, folded.representatives)
    serial = sum(int(np.max(d)) for d in every) + sum(op.issue_ns for op in program.ops)
    n_transfers = sum(op.transfer is not None for op in program.ops)
    # Ends are rounded up to whole nanoseconds, once a transfer and start or end of another.
    assert alone <= shared <= serial + 2 * n_transfers


@given(cases(loads=True))
def test_folding_is_exact_where_links_are_shared(case: tuple[Program, Variation]) -> None:
    program, variation = case
    folded = fold(program, variation)
    assert events(program, folded, variation, fluid=True) == events(
        program, unfolded(program), variation, fluid=True
    )


@given(cases(loads=True, beside=True))
@settings(max_examples=300)
def test_folding_is_exact_where_kernels_are_slower_beside_collectives(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded = fold(program, variation)
    assert events(program, folded, variation, fluid=True) == events(
        program, unfolded(program), variation, fluid=True
    )


@given(cases(loads=True, beside=True))
@settings(max_examples=200)
def test_simpy_and_max_plus_agree_bitwise_when_kernels_run_alone(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded = fold(program, variation)
    alone = durations(program, variation, folded.representatives)
    times = solve(program, folded, alone)
    if not kernels_overlap(program, times):
        assert events(program, folded, variation) == by_rank(times, folded)
    if not kernels_overlap(program, times) and not transfers_overlap(program, times, alone):
        assert events(program, folded, variation, fluid=True) == by_rank(times, folded)


@given(cases(loads=True, beside=True))
@settings(max_examples=300)
def test_a_fixed_point_of_stretched_kernels_is_what_simpy_finds(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    for folded in (fold(program, variation), unfolded(program)):
        alone = durations(program, variation, folded.representatives)
        times = settle(program, folded, alone, solve(program, folded, alone))
        assert times is not None
        assert by_rank(times, folded) == events(program, folded, variation)


@given(cases(rings=True, beside=True))
@settings(max_examples=200)
def test_folding_is_exact_where_kernels_are_slower_beside_message_level_rings(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded = fold(program, variation)
    reference = events(program, unfolded(program), variation)
    assert events(program, folded, variation) == reference
    alone = durations(program, variation, folded.representatives)
    times = settle(program, folded, alone, solve(program, folded, alone))
    assert times is not None
    assert by_rank(times, folded) == reference


COMM_BOUND = ("schedule.communicators=2", "intra_busbw=1e7", "world_size=4", "layers=4")


def test_auto_takes_max_plus_when_one_communicator_queues_all_transfers() -> None:
    trace = simulate(load_scenario("lesson-zero3", [*COMM_BOUND, "communicators=1"]))
    assert trace.meta.engine == "maxplus"


def test_auto_takes_simpy_when_gathers_and_reductions_share_a_link() -> None:
    trace = simulate(load_scenario("lesson-zero3", [*COMM_BOUND, "prefetch=1"]))
    assert trace.meta.engine == "simpy"
    alone = simulate(load_scenario("lesson-zero3", [*COMM_BOUND, "prefetch=1", "engine=maxplus"]))
    assert alone.meta.steps[0].end_ns < trace.meta.steps[0].end_ns


@given(
    st.sampled_from([1, 2]),
    st.integers(0, 2),
    st.sampled_from(["1e7", "1e8", "1e9", "1e11"]),
    st.sampled_from(["", "1:1.5"]),
)
@settings(max_examples=40)
def test_auto_takes_simpy_exactly_when_transfers_overlap(
    communicators: int, prefetch: int, busbw: str, stragglers: str
) -> None:
    words = [
        f"communicators={communicators}",
        f"prefetch={prefetch}",
        f"intra_busbw={busbw}",
        f"stragglers={stragglers}",
    ]
    alone = simulate(load_scenario("lesson-zero3", [*words, "engine=maxplus"]))
    moved = alone.spans.filter(pl.col("collective").is_not_null())
    arrived = pl.col("start_ns").max().over("collective")
    overlapping = False
    for _, rows in moved.with_columns(begin=arrived).group_by("rank"):
        times = sorted(rows.select("begin", "end_ns").rows())
        overlapping |= any(start < end for (_, end), (start, _) in pairwise(times))
    trace = simulate(load_scenario("lesson-zero3", words))
    assert trace.meta.engine == ("simpy" if overlapping else "maxplus")
