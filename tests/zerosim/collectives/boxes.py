"""Machines as the check cases have them, in numbers, whatever the registered ones become."""

from __future__ import annotations

from dataclasses import replace

from zerosim.cluster import Cluster, Device, Host, Link, Topology
from zerosim.collectives import Transfer, transfer
from zerosim.kinds import Kind

KIB, MIB, GIB = 2**10, 2**20, 2**30
AG, RS, AR = Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_REDUCE
DEVICE = Device("a GPU", 1e15, 80 * 10**9, 3e12, 0.7, 5e-6, sms=132)

TOPOLOGIES = {
    "v100": Topology("volta", channels=6, channel_busbw=20e9, ctas=12),
    "a100": Topology("ampere", channels=12, channel_busbw=20e9, ctas=24),
    "h100": Topology(
        "hopper",
        channels=12,
        channel_busbw=30e9,
        ctas=24,
        nvls_heads=8,
        nvls_link=370.8e9,
        nvls_ctas=16,
    ),
    "b200": Topology(
        "blackwell",
        channels=16,
        channel_busbw=45e9,
        ctas=32,
        nvls_heads=8,
        nvls_link=721.8e9,
        nvls_ctas=24,
    ),
    "pcie": Topology("ampere", 1, 12e9, 2, intra="pci", ll128=False),
}
PER_NODE = {"v100": 16, "a100": 8, "h100": 8, "b200": 8, "pcie": 8}
NET = {"v100": 100e9, "a100": 200e9, "h100": 400e9, "b200": 400e9, "pcie": 12.5e9}


def box(name: str, n_ranks: int, model: str = "nccl") -> Cluster:
    """`n_ranks` ranks of a machine of the check cases."""
    topology = TOPOLOGIES[name]
    return Cluster(
        name=name,
        world_size=n_ranks,
        ranks_per_node=PER_NODE[name],
        device=DEVICE,
        intra=Link("nvswitch", topology.channels * topology.channel_busbw, 3.4e-6),
        inter=Link("infiniband", NET[name], 14e-6),
        host=Host(0.0, 0.0),
        base_s=8.4e-6,
        collectives=model,
        topology=topology,
    )


def moved(name: str, n_ranks: int, kind: Kind, nbytes: int, model: str = "nccl") -> Transfer:
    """A collective over all ranks of a box."""
    return transfer(kind, nbytes, n_ranks, box(name, n_ranks, model))


def with_topology(cluster: Cluster, **changes: float | str | bool) -> Cluster:
    """The cluster with its topology changed."""
    assert cluster.topology is not None
    return replace(cluster, topology=replace(cluster.topology, **changes))  # type: ignore[arg-type]
