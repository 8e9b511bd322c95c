"""The tuner's bandwidths: what an algorithm with a protocol moves, in GB/s of the tensor's bytes."""

from __future__ import annotations

from zerosim.collectives.nccl.constants import (
    LL128_SHARE,
    LL_MAX_NODES,
    LL_MAX_ONE_NODE,
    LL_SHARE,
    NVLS_SHARE,
    NVLS_SPEEDS,
    NVLS_TREE_CORRECTED,
    NVLS_TREE_MAX,
    PAT_SHARE,
    PLAIN_TREE_SHARE,
    RING_LL128_MAX,
    TREE_CORRECTED,
    TREE_CORRECTION,
    TREE_LL128_MAX,
    TREE_LL128_SHARE,
    TREE_LL_SHARE,
    TREE_MAX,
    TREE_SHARE,
    Algorithm,
    Protocol,
)
from zerosim.collectives.nccl.seen import Seen
from zerosim.kinds import Kind


def available(kind: Kind, algorithm: Algorithm, protocol: Protocol, group: Seen) -> bool:
    """Whether NCCL would consider the pair for a collective of `kind`."""
    if protocol is not Protocol.SIMPLE and not group.topology.low_latency:
        return False
    if protocol is Protocol.LL128 and not (
        group.topology.ll128 and (group.per_node == 1 or group.topology.intra == "nvlink")
    ):
        return False
    whole = kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER)
    match algorithm:
        case Algorithm.RING:
            return True
        case Algorithm.TREE:
            return kind is Kind.ALL_REDUCE
        case Algorithm.PAT:
            alone = group.crosses and group.per_node == 1
            return whole and alone and protocol is Protocol.SIMPLE
        case Algorithm.NVLS:
            reached = not group.crosses or (
                group.topology.sharp and (not whole or group.per_node <= group.heads)
            )
            suits = whole or kind is Kind.ALL_REDUCE
        case Algorithm.NVLS_TREE:
            reached = group.crosses
            suits = kind is Kind.ALL_REDUCE
    return suits and reached and group.heads > 0 and protocol is Protocol.SIMPLE


def algbw(kind: Kind, nbytes: int, algorithm: Algorithm, protocol: Protocol, group: Seen) -> float:
    """GB/s of the tensor's bytes that an available pair moves."""
    match algorithm:
        case Algorithm.RING:
            return _ring(protocol, group) * group.n_ranks / steps(kind, group.n_ranks)
        case Algorithm.TREE:
            corrected = _correction(nbytes, protocol, TREE_CORRECTED)
            return _tree(protocol, group) * 0.5 * corrected
        case Algorithm.PAT:
            return group.ring * PAT_SHARE
        case Algorithm.NVLS | Algorithm.NVLS_TREE:
            moved = _nvls(kind, algorithm, group)
            if kind is not Kind.ALL_REDUCE:
                return moved
            if algorithm is Algorithm.NVLS_TREE and _trees_fall_short(group):
                moved *= _correction(nbytes, protocol, NVLS_TREE_CORRECTED)
            return moved * group.n_ranks / steps(kind, group.n_ranks)


def steps(kind: Kind, n_ranks: int) -> int:
    """Steps of a ring: how often a rank hands a piece on."""
    if kind is Kind.ALL_REDUCE:
        return 2 * (n_ranks - 1)
    return n_ranks - 1 if kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER) else n_ranks


def _ring(protocol: Protocol, group: Seen) -> float:
    architecture = group.topology.architecture
    if protocol is Protocol.LL:
        return min(_ll_max(group), group.ring * LL_SHARE)
    if protocol is Protocol.LL128:
        return min(group.ring * LL128_SHARE, group.channels * RING_LL128_MAX[architecture])
    return group.ring


def _tree(protocol: Protocol, group: Seen) -> float:
    architecture = group.topology.architecture
    bus = min(group.tree * TREE_SHARE, group.channels * TREE_MAX[architecture][group.scale])
    if protocol is Protocol.LL:
        bus = min(bus * TREE_LL_SHARE, _ll_max(group))
    if protocol is Protocol.LL128:
        cap = group.channels * TREE_LL128_MAX[architecture][group.scale]
        bus = min(bus * TREE_LL128_SHARE[group.crosses], cap)
    return bus * PLAIN_TREE_SHARE if group.per_node == 1 else bus


def _nvls(kind: Kind, algorithm: Algorithm, group: Seen) -> float:
    architecture = group.topology.architecture
    inside = group.head * NVLS_SHARE[architecture] * (group.heads - 1) / group.heads
    # An all-reduce reads and writes at once.
    both = 2.0 if kind is Kind.ALL_REDUCE else (group.per_node - 1) / group.per_node
    a_head = min(inside * both, _between(algorithm, group))
    if algorithm is Algorithm.NVLS_TREE:
        a_head = min(a_head, NVLS_TREE_MAX[architecture][group.scale])
    return group.heads * a_head


def _between(algorithm: Algorithm, group: Seen) -> float:
    """What a head has between nodes; inside one, the largest speed that the search tries."""
    if not group.crosses:
        return NVLS_SPEEDS[group.topology.architecture][0]
    twice = 2 if algorithm is Algorithm.NVLS_TREE and group.scale == 1 else 1
    return twice * group.net / group.heads


def _ll_max(group: Seen) -> float:
    if group.crosses:
        return LL_MAX_NODES[group.topology.cpu][group.scale]
    return LL_MAX_ONE_NODE[group.topology.architecture]


def _trees_fall_short(group: Seen) -> bool:
    return group.topology.architecture == "blackwell" and group.topology.cpu != "other"


def _correction(nbytes: int, protocol: Protocol, n_corrected: int) -> float:
    power = (nbytes >> 6).bit_length() - 1
    return TREE_CORRECTION[protocol][power] if 0 <= power < n_corrected else 1.0
