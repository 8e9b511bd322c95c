"""NCCL's tuner: what is chosen when, and what each latency and bandwidth is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.zerosim.collectives.boxes import (
    AG,
    AR,
    GIB,
    KIB,
    box,
    moved,
    with_topology,
)
from zerosim.cluster import Topology
from zerosim.collectives import transfer
from zerosim.collectives.nccl import Algorithm, Protocol, choices
from zerosim.collectives.placement import placed
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.kinds import Kind

SIMPLE, NVLS = "ring/Simple", "NVLS/Simple"


def test_thread_blocks_are_a_channel_each_and_fewer_for_few_bytes() -> None:
    # Simple takes a channel for every 512 threads x 64 bytes; LL for every 512 x 8 and rank.
    assert moved("h100", 8, AG, GIB).ctas == 24
    assert moved("h100", 8, AG, 32 * KIB).ctas == 1
    assert moved("h100", 8, AG, 3 * 512 * 8 * 8).ctas == 3
    assert moved("h100", 8, AR, GIB).ctas == 16  # NVLS has its own


@pytest.mark.parametrize(
    ("n_ranks", "by"),
    [(2, SIMPLE), (3, SIMPLE), (4, SIMPLE), (5, SIMPLE), (6, NVLS), (7, NVLS), (8, NVLS)],
)
def test_nvls_pays_with_many_heads(n_ranks: int, by: str) -> None:
    # Measured on H200 with NCCL 2.27.7: a ring of 4, NVLS from 5 on (stas00/ml-engineering).
    assert moved("h100", n_ranks, AR, 8 * GIB).by == by


def test_nvls_passes_nodes_only_if_the_network_reduces() -> None:
    plain, sharp = box("h100", 32), with_topology(box("h100", 32), sharp=True)
    names = [
        {choice.algorithm for choice in choices(kind, GIB, placed(32, c), c)}
        for c in (plain, sharp)
        for kind in (AG, AR)
    ]
    ring, tree = Algorithm.RING, Algorithm.TREE
    assert names == [
        {ring},
        {ring, tree, Algorithm.NVLS_TREE},
        {ring, Algorithm.NVLS},
        {ring, tree, Algorithm.NVLS_TREE, Algorithm.NVLS},
    ]


def test_one_gpu_a_node_gathers_by_pat_only_with_few_bytes_and_many_nodes() -> None:
    cluster = replace(box("h100", 64), ranks_per_node=1)
    assert transfer(AG, 64 * KIB, 64, cluster).by == "PAT/Simple"
    assert transfer(AG, GIB, 64, cluster).by == "ring/LL128"
    # 8 µs, log2(64) steps of 14/3.5 µs, 64 ranks of 2.8 µs.
    assert transfer(AG, 64 * KIB, 64, cluster).latency_ns == 8_000 + 6 * 4_000 + 64 * 2_800


def test_a_tree_needs_fewer_steps_over_many_nodes() -> None:
    assert moved("a100", 512, AR, 64 * KIB).by == "tree/LL"
    # 6.8 µs, then twice 7 steps inside the node and log2(64) between nodes.
    assert moved("a100", 512, AR, 64 * KIB).latency_ns == 6_800 + 2 * (7 * 600 + 6 * 5_000)


@pytest.mark.parametrize("kind", [Kind.BROADCAST, Kind.REDUCE])
def test_a_broadcast_or_reduce_is_a_ring_that_passes_all_bytes(kind: Kind) -> None:
    inside = moved("a100", 8, kind, GIB)
    assert inside.by == SIMPLE
    assert inside.latency_ns == 8_400 + 3_400
    assert inside.wire_ns == pytest.approx(GIB / 240, abs=1)
    # Over nodes the rings differ, and each of 16 steps waits for a chunk.
    over_nodes = moved("a100", 16, kind, 2**33)
    assert over_nodes.by == SIMPLE
    assert over_nodes.latency_ns == 8_400 + 16 * 14_000


def test_ll128_needs_nvlink_and_few_bridges() -> None:
    cluster = box("h100", 16)
    pairs = {c.protocol for c in choices(AG, GIB, placed(16, cluster), cluster)}
    assert Protocol.LL128 in pairs
    without = with_topology(cluster, ll128=False)
    pairs = {c.protocol for c in choices(AG, GIB, placed(16, without), without)}
    assert Protocol.LL128 not in pairs
    over_pcie = with_topology(box("pcie", 8), ll128=True)
    pairs = {c.protocol for c in choices(AG, GIB, placed(8, over_pcie), over_pcie)}
    assert Protocol.LL128 not in pairs


def test_a_ring_between_nodes_waits_longer_from_64_bytes_a_channel_and_rank_on() -> None:
    cluster = with_topology(box("a100", 16), ll128=False)
    below, above = 64 * 24 * 16 - 1, 64 * 24 * 16
    simple = [
        next(
            c
            for c in choices(AR, nbytes, placed(16, cluster), cluster)
            if (c.algorithm, c.protocol) == (Algorithm.RING, Protocol.SIMPLE)
        ).latency_s
        for nbytes in (below, above)
    ]
    plain = 8.4e-6 + 28 * 3.4e-6 + 2 * 14e-6
    assert simple == pytest.approx([plain, 1.4 * plain])


def test_what_the_fabric_adds_counts_between_nodes_alone() -> None:
    def latency(n_ranks: int, **changes: float) -> int:
        cluster = with_topology(box("a100", n_ranks), **changes)
        return transfer(AG, 2**33, n_ranks, cluster).latency_ns

    assert latency(8, net_base_s=50e-6, net_latency_s=10e-6) == latency(8)
    assert latency(16, net_base_s=50e-6) == latency(16) + 50_000
    # One step of 15 crosses nodes; Simple waits twice for it, the second time for its flush.
    assert moved("a100", 16, AG, 2**33).by == SIMPLE
    assert latency(16, net_latency_s=10e-6) == latency(16) + 20_000


def test_an_amd_host_posts_messages_more_slowly() -> None:
    intel = transfer(AG, 2**33, 32, box("v100", 32))
    amd = transfer(AG, 2**33, 32, with_topology(box("v100", 32), cpu="amd"))
    # 30 steps inside nodes: 3 posts of 2 µs are more than the 3.4 µs of a step.
    assert amd.latency_ns - intel.latency_ns == 30 * (6_000 - 3_400)


def test_faster_and_slower_links_carry_the_channels_with_them() -> None:
    cluster = box("h100", 8)
    faster = replace(cluster, intra=replace(cluster.intra, busbw=720e9))
    for kind in (AG, AR):
        before, after = transfer(kind, GIB, 8, cluster), transfer(kind, GIB, 8, faster)
        assert after.wire_ns < before.wire_ns
    assert transfer(AG, GIB, 8, faster).wire_ns == pytest.approx(GIB * 7 / 8 / 720, abs=1)


def test_groups_that_pass_a_node_together_share_its_cards() -> None:
    cluster = box("h100", 32)
    across = transfer(AG, GIB, 4, cluster, stride=8)
    assert dict(across.loads) == {"infiniband": 8 * (GIB * 3 // 4)}
    assert across.wire_ns >= 8 * (GIB * 3 // 4) / 400


def test_the_load_of_nvls_is_what_the_switch_reads_and_writes() -> None:
    # Every rank's copy is read once, and one eighth is written back for all.
    assert dict(moved("h100", 8, AR, GIB).loads) == {"nvswitch": GIB * 9 // 8}


def test_a_rack_of_72_is_one_node() -> None:
    rack = replace(box("b200", 144), ranks_per_node=72)
    inside, across = transfer(AG, GIB, 72, rack), transfer(AG, GIB, 144, rack)
    assert [link for link, _ in inside.loads] == ["nvswitch"]
    assert inside.wire_ns == pytest.approx(GIB * 71 / 72 / 720, rel=0.1)
    assert [link for link, _ in across.loads] == ["nvswitch", "infiniband"]


def test_a_cluster_that_runs_no_nccl_is_refused_with_what_to_do() -> None:
    cluster = box("h100", 8)
    with pytest.raises(ScenarioError, match=r"runs gloo: give ring, alpha-beta or table"):
        transfer(AG, GIB, 8, replace(cluster, backend="gloo"))
    with pytest.raises(ScenarioError, match="nothing is known of the topology of 'h100'"):
        transfer(AG, GIB, 8, replace(cluster, topology=None))
    with pytest.raises(ScenarioError, match="no cost model for 'gather'"):
        transfer(Kind.GATHER, GIB, 8, cluster)


def test_a_topology_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no topology architecture 'hoper': did you mean"):
        Topology("hoper", 12, 30e9, 24)
    with pytest.raises(ScenarioError, match=r"topology\.channels is 0: give a number above 0"):
        Topology("hopper", 0, 30e9, 24)
    with pytest.raises(ScenarioError, match=r"topology\.net_base_s is -1\.0: give a number, 0 or"):
        Topology("hopper", 12, 30e9, 24, net_base_s=-1.0)
    with pytest.raises(ScenarioError, match="nvls_heads is 8, but nvls_link 0"):
        Topology("hopper", 12, 30e9, 24, nvls_heads=8)
