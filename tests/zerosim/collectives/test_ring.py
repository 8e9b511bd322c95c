"""The ring model: bytes on the wire, and NCCL's ring times of 32 MiB and more, to a tenth of a µs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.cluster import Cluster
from zerosim.collectives import transfer, wire_bytes
from zerosim.errors import ScenarioError
from zerosim.hardware import MACHINES
from zerosim.kinds import Kind

MIB = 2**20
AG, RS, AR = Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_REDUCE


def by_ring(machine: str, n_ranks: int) -> Cluster:
    return replace(MACHINES[machine].cluster(n_ranks, "bfloat16"), collectives="ring")


def microseconds(machine: str, n_ranks: int, kind: Kind, nbytes: int) -> float:
    cluster = by_ring(machine, n_ranks)
    return transfer(kind, nbytes, n_ranks, cluster).alone_ns / 1000


# Check cases G1-G5: NVIDIA/nccl src/graph/tuning.cc, ring with the Simple protocol.
@pytest.mark.parametrize(
    ("machine", "n_ranks", "kind", "at_32", "at_256", "at_1024"),
    [
        ("dgx-2", 16, AG, 321.54, 2156.55, 8448.01),
        ("dgx-2", 16, RS, 321.54, 2156.55, 8448.01),
        ("dgx-2", 16, AR, 634.69, 4304.70, 16887.62),
        ("dgx-a100", 8, AG, 154.53, 1010.87, 3946.88),
        ("dgx-a100", 8, AR, 300.67, 2013.34, 7885.37),
        ("dgx-h100", 8, AG, 113.76, 684.65, 2641.99),
    ],
)
def test_ring_times_are_nccls(
    machine: str, n_ranks: int, kind: Kind, at_32: float, at_256: float, at_1024: float
) -> None:
    times = [microseconds(machine, n_ranks, kind, size * MIB) for size in (32, 256, 1024)]
    assert times == pytest.approx([at_32, at_256, at_1024], abs=0.1)


def test_one_gigabyte_within_a_dgx_2_takes_7_81_ms_and_its_latency() -> None:
    latency = 8.4 + 15 * 3.4
    assert microseconds("dgx-2", 16, AG, 10**9) == pytest.approx(7812.5 + latency, abs=0.1)


def test_one_gigabyte_over_25_dgx_2_is_set_by_the_nodes_network_cards() -> None:
    cluster = by_ring("dgx-2", 400)
    moved = transfer(AG, 10**9, 400, cluster)
    # 384 of 400 shards come from other nodes; check case G10 counts 399 (9.975 ms): 4 % apart.
    assert dict(moved.loads) == {"nvswitch": 997_500_000, "infiniband": 960_000_000}
    wire_ns = moved.alone_ns - moved.latency_ns
    assert wire_ns == 9_600_000
    assert wire_ns == pytest.approx(9_975_000, rel=0.04)


def test_latency_counts_a_hop_a_step_and_the_network_between_nodes() -> None:
    cluster = by_ring("dgx-2", 400)
    # 24 steps cross nodes, 375 stay inside.
    assert transfer(AG, 1, 400, cluster).latency_ns == 8_400 + 375 * 3_400 + 24 * 14_000


# Check cases C1, C2, C4 with Ψ = 8 elements of a byte: 2Ψ(N-1)/N and so on.
@pytest.mark.parametrize(
    ("kind", "n_ranks", "sent"),
    [(AG, 8, 7), (RS, 8, 7), (AR, 8, 14), (AG, 64, 8), (AG, 1, 0), (AR, 1, 0), (AR, 2, 8)],
)
def test_bytes_sent_by_one_rank(kind: Kind, n_ranks: int, sent: int) -> None:
    assert wire_bytes(kind, 8, n_ranks) == sent


def test_gloos_reduce_scatter_moves_an_all_reduce() -> None:
    assert wire_bytes(RS, 300, 3, "gloo") == 400
    assert wire_bytes(AG, 300, 3, "gloo") == 200


def test_one_rank_alone_moves_nothing_in_no_time() -> None:
    cluster = by_ring("dgx-h100", 1)
    moved = transfer(AR, 10**9, 1, cluster)
    assert (moved.latency_ns, moved.loads) == (0, ())
    assert moved.alone_ns == 0


def test_groups_that_pass_a_node_together_load_its_cards_together() -> None:
    cluster = by_ring("dgx-h100", 32)
    across = transfer(AR, 800, 4, cluster, stride=8)
    # Each of a node's 8 ranks is in a group of its own: 8 rings of 2 · 800 · 3/4 bytes.
    assert dict(across.loads)["infiniband"] == 8 * 1200


def test_a_kind_without_a_cost_is_refused() -> None:
    with pytest.raises(ScenarioError, match="no cost model for 'gather'"):
        wire_bytes(Kind.GATHER, 8, 2)


def test_a_broadcast_passes_all_its_bytes_over_each_link_but_not_from_the_last_rank() -> None:
    cluster = by_ring("dgx-h100", 16)
    moved = transfer(Kind.BROADCAST, 800, 16, cluster)
    assert dict(moved.loads) == {"nvswitch": 800, "infiniband": 800}
    assert wire_bytes(Kind.BROADCAST, 800, 16) == 750


@given(st.integers(0, 10**12), st.integers(1, 5000), st.sampled_from([AG, RS, AR]))
def test_more_bytes_never_take_less_time(nbytes: int, n_ranks: int, kind: Kind) -> None:
    assert microseconds("dgx-h100", n_ranks, kind, nbytes) <= microseconds(
        "dgx-h100", n_ranks, kind, nbytes + 1000
    )
