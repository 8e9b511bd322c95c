"""A straight line: a fixed latency (alpha), then the bytes of one rank at a bus bandwidth (beta)."""

from __future__ import annotations

from zerosim.cluster import Cluster
from zerosim.collectives.placement import Placement, Transfer, slowest_s
from zerosim.collectives.ring import ring_loads
from zerosim.collectives.volume import PIPELINES, wire_bytes
from zerosim.kinds import Kind
from zerosim.units import seconds_to_ns


def alpha_beta(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> Transfer:
    """`base_s`, then the bytes that a rank sends at the busbw of the slower link on the way."""
    busbw = cluster.intra.busbw
    if group.n_nodes > 1:
        busbw = min(busbw, cluster.inter.busbw / group.sharing)
    moved = (
        nbytes if kind in PIPELINES else wire_bytes(kind, nbytes, group.n_ranks, cluster.backend)
    )
    loads = ring_loads(kind, nbytes, group, cluster)
    wire_s = max(moved / busbw, slowest_s(loads, cluster))
    return Transfer(seconds_to_ns(cluster.base_s), loads, seconds_to_ns(wire_s))
