"""The plain models beside NCCL's: a line, a measured table, and rails; each on round numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.zerosim.collectives.boxes import AG, AR, GIB, RS, box, moved
from zerosim.cluster import Cluster, Measured
from zerosim.collectives import COLLECTIVES, transfer
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.kinds import Kind

A2A, P2P = Kind.ALL_TO_ALL, Kind.P2P


def plain(n_ranks: int, per_node: int, model: str, backend: str = "nccl") -> Cluster:
    """1 GB/s inside nodes, 0.25 GB/s between them, 1 µs of latency: bytes are nanoseconds."""
    base = box("h100", n_ranks, model)
    return replace(
        base,
        ranks_per_node=per_node,
        intra=replace(base.intra, busbw=1e9),
        inter=replace(base.inter, busbw=0.25e9),
        base_s=1e-6,
        backend=backend,
    )


def test_a_line_is_a_latency_and_the_bytes_of_a_rank() -> None:
    # 7/8 of 800 bytes at a byte a nanosecond; an all-reduce moves them twice.
    assert transfer(AG, 800, 8, plain(8, 8, "alpha-beta")).alone_ns == 1000 + 700
    assert transfer(AR, 800, 8, plain(8, 8, "alpha-beta")).alone_ns == 1000 + 1400
    # Between nodes the slower link counts, whole.
    assert transfer(AG, 800, 8, plain(8, 4, "alpha-beta")).alone_ns == 1000 + 2800


@pytest.mark.parametrize("model", ["ring", "alpha-beta"])
def test_gloos_reduce_scatter_takes_as_long_as_its_all_reduce(model: str) -> None:
    cluster = plain(8, 8, model, "gloo")
    assert transfer(RS, 800, 8, cluster).wire_ns == transfer(AR, 800, 8, cluster).wire_ns == 1400
    assert transfer(AG, 800, 8, cluster).wire_ns == 700


def measured(*times: tuple[int, float], kind: Kind = AG) -> Cluster:
    series = Measured(kind, 8, 1, times, "a log")
    return replace(plain(8, 8, "table"), measured=(series,))


def test_a_measured_time_is_read_off_between_sizes_by_their_logarithms() -> None:
    cluster = measured((1_000, 10e-6), (100_000, 1000e-6))
    assert transfer(AG, 1_000, 8, cluster).alone_ns == 10_000
    # A tenth of the way down the size, a tenth of the time: the line has slope one here.
    assert transfer(AG, 10_000, 8, cluster).alone_ns == pytest.approx(100_000, abs=1)
    assert transfer(AG, 100_000, 8, cluster).alone_ns == 1_000_000


def test_below_the_smallest_size_time_stays_and_above_the_largest_bandwidth_does() -> None:
    cluster = measured((1_000, 10e-6), (100_000, 1000e-6))
    assert transfer(AG, 10, 8, cluster).alone_ns == 10_000
    assert transfer(AG, 200_000, 8, cluster).alone_ns == 2_000_000


def test_of_a_measured_time_the_links_need_what_they_need_and_the_rest_is_latency() -> None:
    took = transfer(AG, 8_000, 8, measured((8_000, 10e-6)))
    assert (took.latency_ns, took.wire_ns) == (3_000, 7_000)
    # Faster than the link's own rate: it is believed, and nothing is left for latency.
    took = transfer(AG, 8_000, 8, measured((8_000, 5e-6)))
    assert (took.latency_ns, took.wire_ns) == (0, 5_000)


def test_what_nobody_measured_is_refused_with_what_was() -> None:
    with pytest.raises(ScenarioError, match="nobody measured all_reduce over 8 ranks on 1 nodes"):
        transfer(AR, 800, 8, measured((8_000, 10e-6)))
    with pytest.raises(ScenarioError, match=r"\(measured: all_gather over 8 on 1\)"):
        transfer(AG, 800, 4, measured((8_000, 10e-6)))


def test_a_measured_series_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ScenarioError, match="give ascending sizes"):
        Measured(AG, 8, 1, ((2, 1.0), (1, 1.0)), "a log")
    with pytest.raises(ScenarioError, match=r"took 0\.0 s: give a finite number"):
        Measured(AG, 8, 1, ((2, 0.0),), "a log")


def test_rails_let_the_slower_part_set_the_time() -> None:
    # Check case G9's neighbour: 32 B200 on 4 nodes, an all-reduce of 4 GiB: 16.1 ms on the cards,
    # 10.4 ms inside the nodes; one after the other they would take 26.5 ms.
    took = moved("b200", 32, AR, 4 * GIB, "hierarchical")
    assert took.wire_ns / 1e6 == pytest.approx(16.11, abs=0.01)
    inside, between = took.loads
    assert inside == ("nvswitch", 2 * (4 * GIB) * 7 // 8)
    assert between == ("infiniband", 2 * (4 * GIB) * 3 // 4)


def test_rails_of_one_node_or_one_rank_a_node_are_nccls_own() -> None:
    for n_ranks, per_node in ((8, 8), (8, 1)):
        rails = replace(box("h100", n_ranks, "hierarchical"), ranks_per_node=per_node)
        assert transfer(AR, GIB, n_ranks, rails) == transfer(
            AR, GIB, n_ranks, replace(rails, collectives="nccl")
        )


def test_an_all_to_all_keeps_in_the_node_what_is_for_its_ranks() -> None:
    took = moved("h100", 16, A2A, 16 * 1000)
    # Of 16 pieces of 1000 bytes, 7 go to ranks of the node and 8 to the other node, from 8 ranks.
    assert dict(took.loads) == {"nvswitch": 7_000, "infiniband": 8 * 8_000}
    # A step between nodes, 7 more peers inside, 8 outside with three posts of 1 µs each.
    assert took.latency_ns == 8_400 + 14_000 + 7 * 1_000 + 8 * 3_000
    assert took.by == "p2p/Simple"


def test_a_single_sender_drives_a_single_card() -> None:
    inside, across = moved("h100", 8, P2P, GIB), moved("h100", 16, P2P, GIB)
    assert inside.wire_ns == pytest.approx(GIB / 360, abs=1)
    assert across.wire_ns == pytest.approx(GIB / 50, abs=1)
    assert (inside.latency_ns, across.latency_ns) == (8_400 + 3_400, 8_400 + 14_000)


def test_a_model_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no model of collectives 'nncl': did you mean"):
        transfer(AG, 8, 8, replace(box("h100", 8), collectives="nncl"))
    assert list(COLLECTIVES) == [
        "ring",
        "nccl",
        "nccl-pipelined",
        "hierarchical",
        "alpha-beta",
        "table",
    ]
