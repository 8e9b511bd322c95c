"""Where a process group lies on the nodes, and a collective as the network sees it."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.cluster import Cluster

Loads = tuple[tuple[str, int], ...]
"""Bytes over each link, by its name."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A collective as the network sees it: a latency, then bytes over links, at once.

    `loads` are (link name, bytes). With its links to itself the transfer takes `wire_ns`, at least as
    long as the slowest link needs for its load. `ctas` are the SMs it takes from computing, `by` the
    algorithm and protocol, where the model chooses one.
    """

    latency_ns: int
    loads: Loads
    wire_ns: int = 0
    ctas: int = 0
    by: str = ""

    @property
    def alone_ns(self) -> int:
        """How long it takes with its links to itself, in whole nanoseconds."""
        return self.latency_ns + self.wire_ns


@dataclass(frozen=True, slots=True)
class Placement:
    """A process group of `n_ranks` ranks on `n_nodes` nodes, up to `per_node` on each.

    `sharing` groups of the same shape pass each node and load its network cards together.
    """

    n_ranks: int
    per_node: int
    n_nodes: int
    sharing: int


def placed(n_ranks: int, cluster: Cluster, stride: int = 1) -> Placement:
    """Where a group of `n_ranks` ranks, `stride` apart, lies."""
    per_node = max(1, min(n_ranks, cluster.ranks_per_node // stride))
    sharing = max(1, min(stride, cluster.ranks_per_node // per_node))
    return Placement(n_ranks, per_node, -(-n_ranks // per_node), sharing)


def capacities(cluster: Cluster) -> dict[str, float]:
    """Bytes a second of each link that transfers load."""
    return {cluster.intra.name: cluster.intra.busbw, cluster.inter.name: cluster.inter.busbw}


def slowest_s(loads: Loads, cluster: Cluster) -> float:
    """Seconds that the slowest link needs for its load."""
    capacity = capacities(cluster)
    return max((moved / capacity[link] for link, moved in loads), default=0.0)
