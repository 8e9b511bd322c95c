"""What holds for every model of collectives, kind, size and placement."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zerosim.collectives.boxes import AG, AR, RS, TOPOLOGIES, box, with_topology
from zerosim.cluster import Cluster, Measured
from zerosim.collectives import COLLECTIVES, COSTED, Transfer, capacities, transfer
from zerosim.collectives.nccl import choices
from zerosim.collectives.placement import placed
from zerosim.kinds import Kind

MODELS = [name for name in COLLECTIVES if name != "table"]
KIND = st.sampled_from(COSTED)
SIZE = st.one_of(st.integers(0, 4096), st.integers(0, 2**36))
EVERY_MODEL = pytest.mark.parametrize("model", MODELS)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Any machine of the check cases, of any size, with any share of its links' rates."""
    cluster = box(draw(st.sampled_from(sorted(TOPOLOGIES))), draw(st.integers(2, 300)))
    share = st.sampled_from([0.1, 0.5, 1.0, 3.0])
    return replace(
        with_topology(cluster, sharp=draw(st.booleans())),
        ranks_per_node=draw(st.sampled_from([1, 2, 4, 8, 16, 72])),
        intra=replace(cluster.intra, busbw=cluster.intra.busbw * draw(share)),
        inter=replace(cluster.inter, busbw=cluster.inter.busbw * draw(share)),
    )


def of_all(kind: Kind, nbytes: int, cluster: Cluster, model: str) -> Transfer:
    return transfer(kind, nbytes, cluster.world_size, replace(cluster, collectives=model))


@EVERY_MODEL
@given(cluster=clusters(), kind=KIND, nbytes=st.integers(1, 2**36))
def test_every_collective_takes_time(model: str, cluster: Cluster, kind: Kind, nbytes: int) -> None:
    took = of_all(kind, nbytes, cluster, model)
    assert took.wire_ns > 0
    assert took.latency_ns > 0
    assert took.ctas >= 0


@EVERY_MODEL
@given(cluster=clusters(), kind=KIND, nbytes=SIZE)
def test_the_wire_takes_as_long_as_the_slowest_link_needs(
    model: str, cluster: Cluster, kind: Kind, nbytes: int
) -> None:
    took = of_all(kind, nbytes, cluster, model)
    capacity = capacities(cluster)
    for link, moved in took.loads:
        assert took.wire_ns >= moved / capacity[link] * 1e9 * (1 - 1e-9)


@EVERY_MODEL
@given(kind=KIND, nbytes=SIZE)
def test_one_rank_alone_moves_nothing_in_no_time(model: str, kind: Kind, nbytes: int) -> None:
    assert transfer(kind, nbytes, 1, box("h100", 8, model)) == Transfer(0, ())


@given(clusters(), st.sampled_from([AG, RS, AR, Kind.BROADCAST, Kind.REDUCE]), SIZE, SIZE)
def test_with_the_same_algorithm_and_protocol_more_bytes_take_no_less_time(
    cluster: Cluster, kind: Kind, one: int, other: int
) -> None:
    group = placed(cluster.world_size, cluster)
    less, more = (choices(kind, n, group, cluster) for n in sorted((one, other)))
    for before, after in zip(less, more, strict=True):
        assert (before.algorithm, before.protocol) == (after.algorithm, after.protocol)
        if "tree" not in before.algorithm.lower():  # trees have a correction by size
            assert before.seconds <= after.seconds


@given(clusters(), st.sampled_from([AG, RS, AR, Kind.BROADCAST, Kind.REDUCE]), SIZE)
def test_the_choice_is_the_fastest_of_those_available(
    cluster: Cluster, kind: Kind, nbytes: int
) -> None:
    found = choices(kind, nbytes, placed(cluster.world_size, cluster), cluster)
    took = of_all(kind, nbytes, cluster, "nccl")
    chosen = next(c for c in found if took.by == f"{c.algorithm}/{c.protocol}")
    assert chosen.seconds == min(c.seconds for c in found)


@given(
    st.lists(
        st.tuples(st.integers(1, 2**36), st.floats(1e-6, 10.0)),
        min_size=1,
        max_size=12,
        unique_by=lambda t: t[0],
    ),
    st.integers(1, 2**37),
)
def test_a_measured_time_lies_between_those_of_its_neighbours(
    times: list[tuple[int, float]], nbytes: int
) -> None:
    series = Measured(AG, 8, 1, tuple(sorted(times)), "a log")
    cluster = replace(box("h100", 8, "table"), measured=(series,))
    took = transfer(AG, nbytes, 8, cluster).alone_ns / 1e9
    largest, last = series.times[-1]
    if nbytes > largest:
        assert took == pytest.approx(last * nbytes / largest, rel=1e-3)
    else:
        around = [t for _, t in series.times]
        assert min(around) * 0.999 <= took <= max(around) * 1.001
