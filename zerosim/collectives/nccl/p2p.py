"""Grouped sends and receives: all-to-all, and each rank to the next.

# Note [Grouped sends]
NCCL runs the sends and receives of a group side by side in one kernel, so their bytes are set by the
links: of an all-to-all of S bytes a rank, S(g-1)/n stay among the g ranks of a node, and a node's
network cards together send gS(n-g)/n. NCCL's tuner has no latency for them: taken is that of a
ring's Simple step over the longest path, and a cost for each further peer.
"""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Cluster
from zerosim.collectives.nccl.constants import BASE_US, PEER_US, PROTOCOLS, US, Algorithm, Protocol
from zerosim.collectives.nccl.latency import hops_us, post_us
from zerosim.collectives.nccl.seen import seen
from zerosim.collectives.placement import Loads, Placement, Transfer, slowest_s
from zerosim.kinds import Kind
from zerosim.units import seconds_to_ns

GROUPED: Final = (Kind.ALL_TO_ALL, Kind.P2P)


def grouped(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> Transfer:
    """An all-to-all, or each rank to the next. See Note [Grouped sends]. Raises ScenarioError."""
    view = seen(group, cluster)
    base = BASE_US[Algorithm.RING][PROTOCOLS.index(Protocol.SIMPLE)]
    intra, inter = hops_us(Algorithm.RING, Protocol.SIMPLE, view)
    latency_us = base + (inter if view.crosses else intra)
    if kind is Kind.ALL_TO_ALL:
        latency_us += max(0, group.per_node - 1) * PEER_US
        latency_us += (group.n_ranks - group.per_node) * post_us(Protocol.SIMPLE, view)
        loads = _all_to_all(nbytes, group, cluster)
        wire_s = slowest_s(loads, cluster)
    else:
        loads = _to_the_next(nbytes, group, cluster)
        wire_s = max(slowest_s(loads, cluster), _one_card_s(nbytes, group, cluster))
    fabric_s = view.topology.net_base_s if view.crosses else 0.0
    return Transfer(
        latency_ns=seconds_to_ns(latency_us * US + fabric_s),
        loads=loads,
        wire_ns=seconds_to_ns(wire_s),
        ctas=view.ctas,
        by="p2p/Simple",
    )


def _all_to_all(nbytes: int, group: Placement, cluster: Cluster) -> Loads:
    n, g = group.n_ranks, group.per_node
    loads = [(cluster.intra.name, -(-nbytes * (g - 1) // n))] if g > 1 else []
    if group.n_nodes > 1:
        loads.append((cluster.inter.name, group.sharing * -(-nbytes * g * (n - g) // n)))
    return tuple(loads)


def _to_the_next(nbytes: int, group: Placement, cluster: Cluster) -> Loads:
    loads = [(cluster.intra.name, nbytes)] if group.per_node > 1 else []
    if group.n_nodes > 1:
        loads.append((cluster.inter.name, group.sharing * nbytes))
    return tuple(loads)


def _one_card_s(nbytes: int, group: Placement, cluster: Cluster) -> float:
    """One sender drives one network card, however many a node has."""
    if group.n_nodes == 1 or cluster.topology is None:
        return 0.0
    return nbytes * (cluster.topology.nics or cluster.ranks_per_node) / cluster.inter.busbw
