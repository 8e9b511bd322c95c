"""The ring model: one hop a step, then the bytes over the slower of two links.

# Note [Ring model]
A ring moves each byte past every rank: with S the full tensor and n ranks, an all-gather or a
reduce-scatter sends S(n-1)/n per rank, an all-reduce twice that (nccl-tests, doc/PERFORMANCE.md).
A multi-channel ring enters each node once, so a node's network cards together carry S(n-g)/n for
g ranks a node; the slower of the two links sets the time. Latency is NCCL's ring/Simple
(src/graph/tuning.cc): a base, and one hop a step. A broadcast or a reduce is a pipeline: all of S
passes every link once (factor 1 of busbw), and n-1 of n ranks send it, S(n-1)/n in the mean. An
all-to-all sends S(n-1)/n. Point to point, each rank sends S to the next one: one hop.
"""

from __future__ import annotations

from zerosim.cluster import Cluster
from zerosim.collectives.placement import Loads, Placement, Transfer, slowest_s
from zerosim.collectives.volume import (
    GLOOS,
    PIPELINES,
    node_bytes,
    passes,
    wire_bytes,
)
from zerosim.kinds import Kind
from zerosim.units import seconds_to_ns


def ring(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> Transfer:
    """The latency and link loads of a collective. See Note [Ring model].

    Groups that share a node's network cards load them together, so the load between nodes counts all
    groups of the axis that pass a node.
    """
    times = passes(kind, cluster.backend)
    steps = 1 if kind is Kind.P2P else times * (group.n_ranks - 1)
    between = min(steps, times * (group.n_nodes - 1))
    latency_s = (
        cluster.base_s + (steps - between) * cluster.intra.hop_s + between * cluster.inter.hop_s
    )
    loads = ring_loads(kind, nbytes, group, cluster)
    wire_ns = seconds_to_ns(slowest_s(loads, cluster))
    return Transfer(seconds_to_ns(latency_s), loads, wire_ns, by="ring")


def ring_loads(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> Loads:
    """Bytes over the link inside a node, and over a node's network cards if there is another."""
    n = group.n_ranks
    times = passes(kind, cluster.backend)
    pipeline = kind in PIPELINES
    sent = nbytes if pipeline else wire_bytes(kind, nbytes, n, cluster.backend)
    if group.n_nodes == 1:
        return ((cluster.intra.name, sent),)
    if cluster.backend in GLOOS:
        leaving = node_bytes(kind, nbytes, n, group.per_node, cluster.backend)
        inside = ((cluster.intra.name, sent),) if group.per_node > 1 else ()
        return (*inside, (cluster.inter.name, group.sharing * leaving))
    crossing = nbytes if pipeline else -(-times * nbytes * (n - group.per_node) // n)
    return ((cluster.intra.name, sent), (cluster.inter.name, group.sharing * crossing))
