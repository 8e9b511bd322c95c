"""The SimPy engine by hand: streams, waits, blocking ops, meetings, and programs that cannot end."""

from __future__ import annotations

import pytest

from zerosim.engine import EQUAL, Variation
from zerosim.engine.events import run
from zerosim.engine.folding import fold, unfolded
from zerosim.engine.program import Program, Ring, Timed, Times
from zerosim.engine.variation import durations
from zerosim.errors import PlanError
from zerosim.plan import Axis

WORLD = (Axis("world", 2),)


def carried_out(*ops: Timed, variation: Variation = EQUAL, n_ranks: int = 2) -> Times:
    axes = (Axis("world", n_ranks),)
    program = Program(n_ranks, ops, axes, {})
    folded = fold(program, variation)
    return run(program, folded, durations(program, variation, folded.representatives), fluid=True)


def test_streams_run_beside_each_other_and_each_in_order() -> None:
    times = carried_out(
        Timed(0, (), 0, 5), Timed(1, (), 0, 7), Timed(0, (0,), 0, 4), Timed(1, (1, 2), 0, 1)
    )
    assert times.start[:, 0].tolist() == [0, 0, 5, 9]
    assert times.end[:, 0].tolist() == [5, 7, 9, 10]


def test_an_op_starts_no_earlier_than_the_host_has_issued_it() -> None:
    times = carried_out(Timed(0, (), 3, 5), Timed(1, (), 20, 1))
    assert times.issued[:, 0].tolist() == [0, 3]
    assert times.start[:, 0].tolist() == [3, 23]


def test_the_host_stops_where_an_op_blocks_it() -> None:
    times = carried_out(Timed(0, (), 1, 10, blocks=True), Timed(1, (), 2, 1))
    assert times.issued[:, 0].tolist() == [0, 11]
    assert times.start[:, 0].tolist() == [1, 13]


def test_a_collective_ends_for_all_when_the_last_has_arrived_and_it_has_taken_its_time() -> None:
    slow = Variation(durations=((0, (4, 9)),))
    times = carried_out(Timed(0, (), 0, 5), Timed(1, (0,), 0, 3, axis=0), variation=slow)
    assert times.start[1].tolist() == [4, 9]
    assert times.end[1].tolist() == [12, 12]


def test_a_message_level_ring_lets_each_rank_go_at_its_own_time() -> None:
    # Rank 0 arrives at 0, rank 1 at 10; a message takes 3 ns, taking it up 1 ns. Each rank has taken
    # up its own at arrival + 1, then the other's: max(own, the other's + 3) + 1.
    ring = Ring(((2, 1, 3),), 1)
    slow = Variation(durations=((0, (0, 10)),))
    times = carried_out(
        Timed(0, (), 0, 5), Timed(1, (0,), 0, ring.together_ns, axis=0, ring=ring), variation=slow
    )
    assert times.end[1].tolist() == [15, 12]


def test_equal_ranks_take_a_rings_common_time() -> None:
    ring = Ring(((4, 1, 3),), 1)
    assert ring.together_ns == 3 * 3 + 4 * 1
    times = carried_out(Timed(0, (), 0, 13, axis=0, ring=ring), n_ranks=4)
    assert times.end.tolist() == [[13]]


@pytest.mark.parametrize(
    "ops",
    [
        (Timed(0, (1,), 0, 1), Timed(0, (0,), 0, 1)),  # waits for what stands behind it
        (Timed(0, (1,), 0, 1), Timed(1, (0,), 0, 1)),  # two that wait for each other
    ],
)
def test_a_program_that_waits_for_itself_is_refused(ops: tuple[Timed, ...]) -> None:
    program = Program(1, ops, (Axis("world", 1),), {})
    with pytest.raises(PlanError, match="op 0 never ran: what it waits for waits for it"):
        run(program, unfolded(program), [1, 1], fluid=False)


def test_an_empty_program_takes_no_time() -> None:
    program = Program(2, (), WORLD, {})
    times = run(program, fold(program, EQUAL), [], fluid=True)
    assert times.end.shape == (0, 1)
