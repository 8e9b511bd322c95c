"""Transfers beside computing, by hand: hosts that do both move bytes more slowly while they compute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.cluster import Contention
from zerosim.collectives import Transfer
from zerosim.engine import ENGINES, EQUAL
from zerosim.engine.folding import Folded, fold, unfolded
from zerosim.engine.program import Program, Timed, Times, timed
from zerosim.errors import ScenarioError
from zerosim.hardware.calibration import FabricConstants
from zerosim.plan import Axis
from zerosim.scenario import Scenario, cluster_of, plan_of

HALF = {"link": 0.5}


def computing(ns: int, stream: int = 0, after: tuple[int, ...] = ()) -> Timed:
    return Timed(stream, after, 0, ns)


def moving(ns: int, stream: int = 1, latency_ns: int = 0, link: str = "link") -> Timed:
    moved = Transfer(latency_ns, ((link, ns - latency_ns),))
    return Timed(stream, (), 0, ns, axis=0, transfer=moved)


def carried_out(*ops: Timed, engine: str = "auto", links: bool = True) -> Times:
    program = Program(
        2,
        ops,
        (Axis("world", 2),),
        {"link": 1e9, "other": 1e9},
        contention=Contention(links=links),
        left=HALF,
    )
    folded: Folded = unfolded(program) if engine == "unfolded" else fold(program, EQUAL)
    return ENGINES[engine](program, folded, EQUAL)[0]


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("engine", ["auto", "unfolded"])
def test_a_transfer_moves_at_what_is_left_while_its_ranks_compute(engine: str, links: bool) -> None:
    times = carried_out(computing(100), moving(80), engine=engine, links=links)
    # 50 of its 80 ns are done when the 100 ns of computing end.
    assert times.end[:, 0].tolist() == [100, 130]


def test_computing_takes_as_long_as_ever_and_a_pause_gives_full_speed() -> None:
    start = Timed(2, (), 0, 60)  # an op of another stream sets off the second kernel
    times = carried_out(computing(20), start, computing(40, after=(1,)), moving(90))
    # Both streams compute to 60 and the second kernel to 100: 50 ns of work are done then.
    assert times.end[:, 0].tolist() == [20, 60, 100, 140]


def test_what_a_transfer_waits_before_its_bytes_is_not_slowed() -> None:
    assert carried_out(computing(30), moving(80, latency_ns=30)).end[1, 0] == 80


def test_a_link_that_hosts_do_not_serve_keeps_its_speed() -> None:
    assert carried_out(computing(100), moving(80, link="other")).end[1, 0] == 80


def test_two_transfers_share_the_host_as_they_share_the_link() -> None:
    times = carried_out(computing(100), moving(80), moving(80, stream=2))
    # A quarter of its speed each up to 100 ns, then half: 25 of 80 ns, and 55 more in 110.
    assert times.end[:, 0].tolist() == [100, 210, 210]


def test_hosts_that_stand_still_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"contention.hosts is 0: give a share above 0"):
        Contention(hosts=0)


def test_what_is_left_follows_from_what_hosts_push_while_they_compute() -> None:
    link = FabricConstants(0.0, 1.0, "given", computing_busbw=75.0)
    assert link.reached(100) == 100
    assert link.kept(100) == pytest.approx(0.6)  # 3, 4, 5: 1 / 60 of 1 / 100 and 1 / 75
    assert link.kept(1) == pytest.approx(1, abs=1e-4)
    assert replace(link, computing_busbw=None).kept(100) == 1


@pytest.mark.parametrize(
    ("words", "left"),
    [(["cluster.inter=800Mbit"], 0.6), (["cluster.inter_busbw=100e6"], 1.0), ([], 0.949)],
)
def test_a_scenario_has_it_at_the_rate_of_its_links_unless_it_says_what_they_reach(
    words: list[str], left: float
) -> None:
    link = {"share": 1.0, "net_latency_s": 0.0, "computing_busbw": 75e6, "source": "given"}
    record = Scenario("x").with_set(["cluster=lab", "world_size=2", *words]).to_dict()
    record["cluster"]["calibration"] = {"fabric": {"lab link": link}}
    scenario = Scenario.from_dict(record)
    cluster = cluster_of(scenario)
    assert cluster.contention.hosts == pytest.approx(left, abs=1e-3)
    assert len(timed(plan_of(scenario), cluster).left) == (left < 1)
