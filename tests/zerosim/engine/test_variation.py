"""What differs between ranks: slow links set the pace of every collective they are in, jitter is drawn once a group."""

from __future__ import annotations

import numpy as np
import pytest

from zerosim.cluster import Contention
from zerosim.collectives import Transfer
from zerosim.engine import Variation, moments
from zerosim.engine.events import run
from zerosim.engine.folding import fold
from zerosim.engine.program import Program, Timed
from zerosim.engine.variation import durations
from zerosim.hardware import MACHINES
from zerosim.kinds import Kind
from zerosim.plan import Axis, Plan, PlanWriter
from zerosim.scenario import cluster_of, load_scenario, variation_of

AXES = (Axis("world", 8), Axis("inner", 4), Axis("outer", 2, 4))
MOVED = Transfer(10, (("intra", 100), ("inter", 60)), wire_ns=100)


def collective(axis: int, moved: Transfer = MOVED) -> Timed:
    return Timed(axis, (), 0, moved.alone_ns, axis=axis, transfer=moved)


def taken(variation: Variation, *ops: Timed) -> list[list[int]]:
    """What each op takes on each of 8 ranks: two nodes of 4, links of 1 B/ns."""
    program = Program(8, ops, AXES, {"intra": 1e9, "inter": 1e9})
    given = durations(program, variation, range(8))
    return [np.broadcast_to(np.asarray(row), 8).tolist() for row in given]


def test_a_slow_link_slows_the_groups_it_is_in_and_no_other() -> None:
    rows = taken(Variation(slow=(("intra", 5, 0.5),)), collective(0), collective(1), collective(2))
    assert rows[0] == [210] * 8  # the world waits for rank 5: 100 B at half a byte a ns
    assert rows[1] == [110] * 4 + [210] * 4  # of the two nodes the second
    assert rows[2] == [110, 210, 110, 110] * 2  # of the four pairs that of ranks 1 and 5


def test_a_slow_network_counts_once_it_is_slower_than_what_it_waits_for() -> None:
    half, tenth = (Variation(slow=(("inter", 0, share),)) for share in (0.5, 0.1))
    assert taken(half, collective(0))[0][0] == 130  # 60 B at half a byte: 120 ns, over 100
    assert taken(tenth, collective(0))[0][0] == 610
    assert taken(Variation(slow=(("inter", 0, 0.9),)), collective(0))[0][0] == 110


def test_ranks_behind_slow_links_are_classes_of_their_own() -> None:
    program = Program(8, (collective(1),), AXES[:2], {"intra": 1e9, "inter": 1e9})
    folded = fold(program, Variation(slow=(("intra", 5, 0.5),)))
    assert folded.class_of.tolist() == [0, 0, 0, 0, 1, 2, 1, 1]


def test_a_slow_link_that_two_transfers_share_is_slow_for_both() -> None:
    slow = Variation(slow=(("intra", 5, 0.5),))
    moved = Transfer(0, (("intra", 100),), wire_ns=100)
    ops = tuple(Timed(s, (), 0, 100, axis=0, transfer=moved) for s in (0, 1))
    program = Program(8, ops, AXES[:1], {"intra": 1e9})
    folded = fold(program, slow)
    given = durations(program, slow, folded.representatives)
    times = run(program, folded, given, fluid=True, shares={"intra": [1.0, 0.5]})
    assert times.end.tolist() == [[400, 400], [400, 400]]


def test_all_members_of_a_group_take_the_same_draw_of_network_jitter() -> None:
    jitter = Variation(network_jitter=0.3, seed=5)
    ops = (collective(1), collective(1), Timed(3, (), 0, 50))
    first, second, kernel = taken(jitter, *ops)
    assert first[:4] == [first[0]] * 4
    assert first[4:] == [first[4]] * 4
    assert len({first[0], first[4], second[0], second[4]}) == 4
    assert kernel == [50] * 8
    assert taken(jitter, *ops) == [first, second, kernel]
    assert taken(Variation(network_jitter=0.3, seed=6), *ops) != [first, second, kernel]


def test_network_jitter_of_the_world_leaves_equal_ranks_equal() -> None:
    jitter = Variation(network_jitter=0.3)
    axes = {"intra": 1e9, "inter": 1e9}
    assert fold(Program(8, (collective(0),), AXES, axes), jitter).n_classes == 1
    assert fold(Program(8, (collective(0), collective(1)), AXES, axes), jitter).n_classes == 8


@pytest.mark.parametrize("engine", ["auto", "maxplus", "simpy", "unfolded"])
def test_a_slow_node_slows_the_step_in_every_engine(engine: str) -> None:
    writer = PlanWriter()
    writer.collective(Kind.ALL_GATHER, "0", elements=1600, dtype="int8")
    plan = Plan("gather", 16, tuple(writer.ops), (Axis("world", 16),))
    cluster = MACHINES["classroom"].cluster(16, "float32")  # two nodes, 1 B/ns inside, 0.25 between

    def end(variation: Variation) -> int:
        return moments(plan, cluster, variation, 0, engine=engine)[1][0]

    assert end(Variation()) == 3200  # 1600 · 8/16 B at 0.25 B/ns
    assert end(Variation(slow=(("infiniband", 8, 0.5),))) == 6400
    assert end(Variation(slow=(("nvswitch", 3, 0.25),))) == 6000  # 1600 · 15/16 B at 0.25 B/ns


def test_slow_links_are_nodes_or_ranks_of_the_scenario() -> None:
    words = ["cluster=dgx-a100", "world_size=10"]
    scenario = load_scenario("lesson-zero3", [*words, "slow_links=rank 3:0.5, node1:0.25, 4:0.1"])
    assert variation_of(scenario).slow == (
        ("infiniband", 8, 0.25),  # the second node has two ranks
        ("infiniband", 9, 0.25),
        ("nvswitch", 3, 0.5),
        ("nvswitch", 4, 0.1),
    )


def test_contention_is_the_machines_unless_the_scenario_says_otherwise() -> None:
    assert cluster_of(load_scenario("lesson-zero3")).contention == Contention()
    assert cluster_of(load_scenario("gpt2-1.5b")).contention == Contention(sms=True, memory=True)
    words = ["sm_contention=false", "link_sharing=false", "serial_communicators=false"]
    found = cluster_of(load_scenario("gpt2-1.5b", words)).contention
    assert found == Contention(memory=True, links=False, communicators=False)
    assert cluster_of(load_scenario("gpt2-1.5b", ["overlap_tax=0.15"])).contention.tax == 0.15
