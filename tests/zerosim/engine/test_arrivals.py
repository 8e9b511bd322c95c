"""Arrivals: a barrier ends for all at once, a ring for each rank when its last piece has come."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from zerosim.collectives import Transfer
from zerosim.engine import Variation
from zerosim.engine.events import run as run_events
from zerosim.engine.folding import fold, unfolded
from zerosim.engine.maxplus import ring_ends, solve
from zerosim.engine.program import Program, Ring, Timed
from zerosim.engine.variation import durations
from zerosim.errors import UnknownNameError
from zerosim.plan import Axis
from zerosim.scenario import load_scenario, run

LATE = Variation(durations=((0, (0, 0, 30)),))


def ends(ring: Ring | None, variation: Variation = LATE) -> list[int]:
    """Ends of a collective of 20 ns on three ranks, the last of which comes 30 ns late."""
    work = Timed(stream=0, after=(), issue_ns=0, duration_ns=30)
    moved = Transfer(0, (("link", 20),), 20)
    gather = Timed(1, (0,), 0, 20, axis=0, transfer=moved, ring=ring)
    program = Program(3, (work, gather), (Axis("world", 3),), {"link": 1e9})
    folded = fold(program, variation)
    given = durations(program, variation, folded.representatives)
    times = solve(program, folded, given)
    shares = {"link": [1.0, 0.5, 1.0]} if variation.slow else {}
    events = run_events(program, folded, given, fluid=True, shares=shares)
    assert np.array_equal(times.end, events.end)
    found: list[int] = times.end[1][folded.class_of].tolist()
    return found


def test_a_barrier_ends_for_all_when_the_last_has_come_and_the_bytes_are_over() -> None:
    assert ends(None) == [50, 50, 50]


def test_a_ring_ends_for_each_rank_when_its_last_piece_has_come() -> None:
    assert ends(Ring(((3, 1, 10),), 0)) == [40, 50, 30]


def test_what_a_slow_link_adds_is_added_for_every_rank() -> None:
    slow = Variation(durations=LATE.durations, slow=(("link", 1, 0.5),))
    assert ends(None, slow) == [70, 70, 70]
    assert ends(Ring(((3, 1, 10),), 0), slow) == [60, 70, 50]


def test_two_passes_are_an_all_reduce() -> None:
    starts = np.asarray([0, 0, 30], dtype=np.int64)
    # After one pass at 40, 50, 30; the second begins with that.
    assert ring_ends(starts, Ring(((3, 1, 10),) * 2, 0)).tolist() == [70, 50, 60]
    assert ring_ends(starts, Ring(((3, 1, 10),) * 2, 0, base_ns=7)).tolist() == [77, 57, 67]


def test_ranks_that_hold_different_amounts_are_told_apart_by_a_ring() -> None:
    ring = Timed(0, (), 0, 20, axis=0, ring=Ring(((2, 1, 20),), 0))
    uneven = (((1, 5), (1, 6)),)
    program = Program(2, (ring,), (Axis("world", 2),), {}, uneven)
    assert fold(program, Variation()).n_classes == unfolded(program).n_classes == 2


WORDS = ("world_size=4", "layers=4", "intra_busbw=1e8")


@pytest.mark.parametrize("schedule", ["zero3", "fsdp2", "ddp"])
def test_where_all_ranks_come_together_both_give_the_same_run(schedule: str) -> None:
    words = [*WORDS, f"schedule={schedule}"]
    barrier, ring = (
        run(load_scenario("lesson-zero3", [*words, f"arrivals={how}"]))
        for how in ("barrier", "ring")
    )
    assert ring.spans.equals(barrier.spans)
    assert ring.samples.equals(barrier.samples)


def late(*words: str) -> Any:
    return run(load_scenario("lesson-zero3", [*WORDS, "stragglers=2:2", *words]))


def test_a_straggler_holds_up_a_ring_no_longer_than_a_barrier() -> None:
    barrier, ring = late("arrivals=barrier"), late("arrivals=ring")
    gathers = [
        t.spans.filter(pl.col("kind") == "all_gather").sort("rank", "collective")["end_ns"]
        for t in (barrier, ring)
    ]
    assert (gathers[1] <= gathers[0]).all()
    assert (gathers[1] < gathers[0]).any()
    assert ring.spans["end_ns"].max() < barrier.spans["end_ns"].max()


@pytest.mark.parametrize("engine", ["simpy", "unfolded", "auto"])
def test_every_engine_follows_the_messages_alike(engine: str) -> None:
    fast, slow = late("arrivals=ring", "engine=maxplus"), late("arrivals=ring", f"engine={engine}")
    assert slow.spans.equals(fast.spans)
    assert slow.samples.equals(fast.samples)


def test_no_rank_of_a_ring_seems_to_send_faster_than_its_link() -> None:
    rates = late("arrivals=ring").samples.filter(pl.col("counter") == "link.nvswitch")
    assert rates["value"].max() == 10**8


def test_a_collective_that_is_no_ring_stays_a_barrier() -> None:
    words = ["world_size=8", "micro_batch=1", "layers=2", "schedule=ddp", "stragglers=2:2"]
    barrier, ring = (
        run(load_scenario("gpt2-1.5b", [*words, f"arrivals={how}"])) for how in ("barrier", "ring")
    )
    # Its all-reduces run on NVLS.
    assert ring.spans.equals(barrier.spans)


def test_an_unknown_kind_of_arrival_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no kind of arrival 'rings': did you mean 'ring'"):
        late("arrivals=rings")
