"""Collectives in two levels: inside the nodes by NVLink, and between nodes on rails, one a GPU.

# Note [Rails]
The ranks of one place in every node are a rail. An all-reduce is a reduce-scatter inside the node, an
all-reduce of its S/g on each of g rails, and an all-gather inside the node; an all-gather or a
reduce-scatter lacks one of the outer parts. Pieces flow through the parts as in a pipeline: those on
one kind of link add up, and the slower kind sets the time. A node's cards then send 2S(m-1)/m for m
nodes where a ring sends 2S(n-1)/n.
"""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Cluster
from zerosim.collectives.nccl import nccl
from zerosim.collectives.placement import Placement, Transfer, slowest_s
from zerosim.kinds import Kind
from zerosim.units import seconds_to_ns

_INSIDE: Final[dict[Kind, tuple[Kind, ...]]] = {
    Kind.ALL_GATHER: (Kind.ALL_GATHER,),
    Kind.REDUCE_SCATTER: (Kind.REDUCE_SCATTER,),
    Kind.ALL_REDUCE: (Kind.REDUCE_SCATTER, Kind.ALL_GATHER),
}


def hierarchical(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> Transfer:
    """The collective in two levels, each part as NCCL would run it. See Note [Rails].

    What has no second level, or no such form, runs as NCCL runs it. Raises ScenarioError.
    """
    if kind not in _INSIDE or group.n_nodes == 1 or group.per_node == 1:
        return nccl(kind, nbytes, group, cluster)
    node = Placement(group.per_node, group.per_node, 1, 1)
    rail = Placement(group.n_nodes, 1, group.n_nodes, group.sharing * group.per_node)
    inside = [nccl(part, nbytes, node, cluster) for part in _INSIDE[kind]]
    between = nccl(kind, -(-nbytes // group.per_node), rail, cluster)
    loads = (
        (cluster.intra.name, sum(moved for part in inside for _, moved in part.loads)),
        *between.loads,
    )
    slowest = max(
        sum(part.wire_ns for part in inside),
        between.wire_ns,
        seconds_to_ns(slowest_s(loads, cluster)),
    )
    return Transfer(
        latency_ns=sum(part.latency_ns for part in [*inside, between]),
        loads=loads,
        wire_ns=slowest,
        ctas=max(part.ctas for part in inside) + between.ctas,
        by=f"rails/{inside[0].by} + {between.by}",
    )
