"""The engines hold each other: SimPy, folded or not, and max-plus give the same integers on any program."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosim.collectives import Transfer
from zerosim.engine import EQUAL, Variation, transfers_overlap
from zerosim.engine.events import run
from zerosim.engine.fabric import Demand, Fabric, fair_speeds
from zerosim.engine.folding import Folded, fold, instance, unfolded
from zerosim.engine.maxplus import ring_ends, solve
from zerosim.engine.program import Program, Ring, Timed, Times, durations
from zerosim.plan import Axis
from zerosim.scenario import load_scenario
from zerosim.scenario import run as simulate

GIGABYTE_A_SECOND = 1_000_000_000  # a byte a nanosecond: loads are their own times
Draw = Callable[[st.SearchStrategy[Any]], Any]

SIZES = st.sampled_from([(1, 1), (2, 1), (3, 1), (2, 2), (2, 3), (4, 2), (2, 4), (3, 3)])
"""Ranks a node, and nodes: the two axes of hybrid sharding."""


@st.composite
def programs(draw: Draw, *, loads: bool = False, rings: bool = False) -> Program:
    """Any program: up to 4 streams and 2 communicators an axis, waits, host costs, blocking ops."""
    inner, outer = draw(SIZES)
    n = inner * outer
    axes = (Axis("world", n), Axis("inner", inner), Axis("outer", outer, inner))
    last: dict[object, int] = {}
    ops: list[Timed] = []
    for i in range(draw(st.integers(1, 16))):
        axis = draw(st.sampled_from([None, None, 0, 0, 1, 2]))
        stream = draw(st.integers(0, 3))
        keys: list[object] = [("stream", stream)]
        if axis is not None:
            keys.append(("communicator", axis, draw(st.integers(0, 1))))
        waits = draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else []
        after = dict.fromkeys([*waits, *(last[key] for key in keys if key in last)])
        duration, latency = draw(st.integers(0, 20)), draw(st.integers(0, 3))
        ring = Ring(((n, 1, duration),), latency) if rings and axis == 0 else None
        moved = Transfer(latency, (("link", duration),)) if loads and axis is not None else None
        if ring is not None:
            duration = ring.together_ns
        ops.append(
            Timed(
                stream=stream,
                after=tuple(after),
                issue_ns=draw(st.integers(0, 4)),
                duration_ns=duration + (latency if moved else 0),
                axis=axis,
                transfer=moved,
                ring=ring,
                blocks=draw(st.integers(0, 5)) == 0,
            )
        )
        last.update(dict.fromkeys(keys, i))
    return Program(n, tuple(ops), axes, {"link": GIGABYTE_A_SECOND})


@st.composite
def variations(draw: Draw, program: Program) -> Variation:
    """Equal ranks, up to three stragglers, jitter of every op, or durations given outright."""
    kind = draw(st.sampled_from(["equal", "speed", "jitter", "both", "given"]))
    ranks = st.lists(st.integers(0, program.n_ranks - 1), max_size=3, unique=True)
    factors = st.sampled_from([0.5, 1.3, 2.0])
    speed = tuple((r, draw(factors)) for r in draw(ranks)) if kind in ("speed", "both") else ()
    jitter = draw(st.sampled_from([0.05, 0.5])) if kind in ("jitter", "both") else 0.0
    local = [i for i, op in enumerate(program.ops) if op.axis is None]
    rows = st.lists(st.integers(0, 30), min_size=program.n_ranks, max_size=program.n_ranks)
    given_rows = tuple((i, tuple(draw(rows))) for i in local) if kind == "given" else ()
    return Variation(speed=speed, jitter=jitter, seed=7, durations=given_rows)


@st.composite
def cases(draw: Draw, /, **kinds: bool) -> tuple[Program, Variation]:
    """A program and what differs between its ranks."""
    program = draw(programs(**kinds))
    return program, draw(variations(program))


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
    return by_rank(run(program, folded, given, fluid=fluid), folded)


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
    times = solve(program, folded, durations(program, variation, folded.representatives))
    if not transfers_overlap(program, times):
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


@given(cases())
def test_ranks_of_a_class_see_the_same_classes_in_every_group(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded = fold(program, variation)
    for axis in program.axes:
        group = instance(axis, program.n_ranks)
        seen: dict[int, list[int]] = {}
        for rank in range(program.n_ranks):
            content = sorted(folded.class_of[group == group[rank]].tolist())
            assert seen.setdefault(int(folded.class_of[rank]), content) == content


def test_one_straggler_of_eight_splits_its_node_its_peers_and_the_rest() -> None:
    axes = (Axis("inner", 2), Axis("outer", 4, 2))
    program = Program(8, (Timed(0, (), 0, 5),), axes, {})
    folded = fold(program, Variation(speed=((3, 1.3),)))
    # 0, 4, 6: other nodes, its neighbour's place. 1, 5, 7: its own place. 2: its neighbour. 3: itself.
    assert folded.class_of.tolist() == [0, 1, 2, 3, 0, 1, 0, 1]
    assert folded.representatives == (0, 1, 2, 3)


def test_equal_ranks_are_one_class_at_any_size() -> None:
    program = Program(16384, (Timed(0, (), 0, 5),), (Axis("world", 16384),), {})
    assert fold(program, EQUAL).n_classes == 1


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=9),
    st.integers(0, 50),
    st.integers(0, 5),
)
def test_the_ring_operator_is_the_step_loop(start: list[int], d: int, ep: int) -> None:
    n = len(start)
    ends = ring_ends(np.asarray(start, dtype=np.int64), Ring(((n, 1, d),), ep))
    assert ends.tolist() == step_loop(start, list(range(n)), d, ep)


@given(st.sampled_from([(2, 2), (2, 3), (4, 2), (3, 3)]), st.data())
def test_the_two_level_ring_operator_is_two_step_loops(
    sizes: tuple[int, int], data: st.DataObject
) -> None:
    inner, outer = sizes
    n = inner * outer
    start = data.draw(st.lists(st.integers(0, 500), min_size=n, max_size=n))
    d0, d1, ep = (data.draw(st.integers(0, 40)) for _ in range(3))
    expected = list(start)
    for place in range(inner):  # an all-gather runs the outer dimension first
        expected = step_loop(expected, list(range(place, n, inner)), d1, ep)
    for node in range(outer):
        expected = step_loop(expected, list(range(node * inner, (node + 1) * inner)), d0, ep)
    ring = Ring(((outer, inner, d1), (inner, 1, d0)), ep)
    assert ring_ends(np.asarray(start, dtype=np.int64), ring).tolist() == expected


def step_loop(start: list[int], members: list[int], d: int, ep: int) -> list[int]:
    """The peer's loop, as its README writes it, on the ring of `members`."""
    x = list(start)
    for r in members:
        x[r] = start[r] + ep
    for _ in range(len(members) - 1):
        sent = list(x)
        for position, r in enumerate(members):
            x[r] = max(sent[r], sent[members[position - 1]] + d) + ep
    return x


def test_two_flows_on_one_link_run_at_half_speed() -> None:
    assert fair_speeds({0: (("a", 1.0),), 1: (("a", 1.0),)}) == {0: 0.5, 1: 0.5}


def test_two_flows_on_two_links_run_at_full_speed() -> None:
    assert fair_speeds({0: (("a", 1.0),), 1: (("b", 1.0),)}) == {0: 1.0, 1: 1.0}


def test_a_flow_that_needs_a_quarter_of_the_link_leaves_the_rest() -> None:
    # Rising together, the link is full at 1 / (1 + 1/4) of their speeds.
    assert fair_speeds({0: (("a", 1.0),), 1: (("a", 0.25),)}) == {0: 0.8, 1: 0.8}


def test_three_flows_are_max_min_fair() -> None:
    # Link a is full at 1/3 with flows 0, 1, 2; flow 3 shares b with flow 2 and takes what is left.
    demands: dict[int, Demand] = {
        0: (("a", 1.0),),
        1: (("a", 1.0),),
        2: (("a", 1.0), ("b", 1.0)),
        3: (("b", 1.0),),
    }
    speeds = fair_speeds(demands)
    assert speeds[0] == speeds[1] == speeds[2] == pytest.approx(1 / 3)
    assert speeds[3] == pytest.approx(2 / 3)


LINK_SHARES = st.dictionaries(
    st.sampled_from("abc"), st.sampled_from([0.1, 0.25, 0.5, 1.0]), min_size=1
)


@given(st.lists(LINK_SHARES, min_size=1, max_size=6))
def test_speeds_fill_no_link_over_its_capacity_and_each_flow_has_its_bottleneck(
    shares: list[dict[str, float]],
) -> None:
    speed = fair_speeds({i: tuple(demand.items()) for i, demand in enumerate(shares)})
    used = {
        link: sum(demand.get(link, 0.0) * speed[i] for i, demand in enumerate(shares))
        for link in "abc"
    }
    assert all(total <= 1 + 1e-9 for total in used.values())
    for i, demand in enumerate(shares):
        bottlenecks = [
            link
            for link in demand
            if used[link] > 1 - 1e-9
            and all(speed[j] <= speed[i] + 1e-9 for j, d in enumerate(shares) if link in d)
        ]
        assert speed[i] == 1.0 or bottlenecks  # the definition of max-min fairness


def ends_of(flows: list[tuple[int, int]]) -> list[int]:
    """When flows of (start, ns alone) on one link end."""
    env = simpy.Environment(initial_time=0)
    fabric = Fabric(env)
    ends = [0] * len(flows)

    def flow(i: int, start: int, wire_ns: int) -> Any:
        yield env.timeout(start)
        yield fabric.transfer(wire_ns, (("a", 1.0),))
        ends[i] = int(env.now)

    for i, (start, wire_ns) in enumerate(flows):
        env.process(flow(i, start, wire_ns))
    env.run()
    return ends


def test_two_overlapping_flows_end_where_the_closed_form_says() -> None:
    # 0-50 alone, 50-150 both at half speed (flow 0 ends), 150-200 flow 1 alone.
    assert ends_of([(0, 100), (50, 100)]) == [150, 200]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 50)), min_size=1, max_size=8))
def test_a_shared_link_moves_every_byte_once(flows: list[tuple[int, int]]) -> None:
    end = 0
    for start, wire_ns in sorted(flows):  # a link that never idles while there is work
        end = max(end, start) + wire_ns
    assert end <= max(ends_of(flows)) <= end + 2 * len(flows)


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
