"""The tuner's latencies: what an algorithm with a protocol takes before bytes count, in µs."""

from __future__ import annotations

from zerosim.collectives.nccl.bandwidth import steps
from zerosim.collectives.nccl.constants import (
    BASE_US,
    HOP_US,
    NET_OVERHEAD_US,
    PAT_LOG_SHARE,
    PAT_RANK_US,
    PLATEAU,
    PLATEAU_BYTES,
    PROTOCOLS,
    SIMPLE_POSTS,
    Algorithm,
    Protocol,
)
from zerosim.collectives.nccl.seen import Seen
from zerosim.kinds import Kind
from zerosim.units import NS_PER_S, NS_PER_US

_US_PER_S = NS_PER_S / NS_PER_US


def latency_us(
    kind: Kind, nbytes: int, algorithm: Algorithm, protocol: Protocol, group: Seen
) -> float:
    """Microseconds before bytes count, for an available pair."""
    base = BASE_US[algorithm][PROTOCOLS.index(protocol)]
    intra, inter = hops_us(algorithm, protocol, group)
    doublings = group.n_nodes.bit_length() - 1
    match algorithm:
        case Algorithm.RING:
            alone = base + _ring(kind, protocol, intra, inter, group)
            return alone * _plateau(kind, nbytes, protocol, group)
        case Algorithm.TREE:
            inside = (group.n_ranks // group.n_nodes - 1) * intra
            return base + 2 * (inside + doublings * inter)
        case Algorithm.NVLS:
            return intra + (inter if group.crosses else 0.0)
        case Algorithm.NVLS_TREE:
            return base + intra + 2 * doublings * inter
        case Algorithm.PAT:
            return base + doublings * inter / PAT_LOG_SHARE + group.n_ranks * PAT_RANK_US


def hops_us(algorithm: Algorithm, protocol: Protocol, group: Seen) -> tuple[float, float]:
    """One step inside a node, and one between nodes, with what the fabric adds to it."""
    column = PROTOCOLS.index(protocol)
    fabric_us = group.topology.net_latency_s * _US_PER_S
    # With one rank a node nothing hides the network's latency; Simple also waits for its flush.
    net = HOP_US["net"][Algorithm.TREE if group.per_node == 1 else algorithm][column]
    net += fabric_us * (2 if protocol is Protocol.SIMPLE else 1)
    return HOP_US[group.topology.intra][algorithm][column], net


def post_us(protocol: Protocol, group: Seen) -> float:
    """Posting one message to a network card."""
    once = NET_OVERHEAD_US[group.topology.cpu]
    return once * SIMPLE_POSTS if protocol is Protocol.SIMPLE else once


def _ring(kind: Kind, protocol: Protocol, intra: float, inter: float, group: Seen) -> float:
    if kind in (Kind.BROADCAST, Kind.REDUCE):
        if not group.crosses:
            return intra
        # Rings that enter a node by different cards pass on chunks, which Simple fills like a tree.
        walker = Algorithm.TREE if protocol is Protocol.SIMPLE else Algorithm.RING
        return steps(kind, group.n_ranks) * HOP_US["net"][walker][PROTOCOLS.index(protocol)]
    if not group.crosses:
        return steps(kind, group.n_ranks) * intra
    between = (2 if kind is Kind.ALL_REDUCE else 1) * (group.n_nodes - 1)
    inside = steps(kind, group.n_ranks) - between
    return inside * max(intra, post_us(protocol, group)) + between * inter


def _plateau(kind: Kind, nbytes: int, protocol: Protocol, group: Seen) -> float:
    reached = nbytes // (group.ctas * group.n_ranks) >= PLATEAU_BYTES
    waits = kind is Kind.ALL_REDUCE and protocol is Protocol.SIMPLE and group.crosses
    return PLATEAU[group.topology.architecture] if waits and reached else 1.0
