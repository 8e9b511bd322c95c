"""What the tuner sees of a process group: ranks, nodes, and the speeds that NCCL's search finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.cluster import Cluster, Topology
from zerosim.collectives.nccl.constants import NVLS_MAX_HEADS, NVLS_MIN_RANKS, NVLS_SPEEDS
from zerosim.collectives.placement import Placement
from zerosim.errors import ScenarioError

GIGA: Final = 1e9


@dataclass(frozen=True, slots=True)
class Seen:
    """Rates in GB/s. `ring` and `tree` are bus bandwidths of all `channels` together.

    `heads` of NVLS (0: none) have `head` inside a node each, and all together `net` between nodes.
    `scale` picks a constant for one node, two, or more.
    """

    topology: Topology
    n_ranks: int
    per_node: int
    n_nodes: int
    scale: int
    channels: int
    ctas: int
    ring: float
    tree: float
    heads: int
    head: float
    net: float

    @property
    def crosses(self) -> bool:
        """Whether the group lies on several nodes."""
        return self.n_nodes > 1


def seen(group: Placement, cluster: Cluster) -> Seen:
    """What the tuner sees of `group`. Raises ScenarioError for a cluster that runs no NCCL.

    Channels keep to the links' rates: all those of a node share `intra.busbw`, and between nodes the
    rate of all of a node's network cards, which groups that pass the node together share.
    """
    topology = _topology(cluster)
    intra, net = cluster.intra.busbw / GIGA, cluster.inter.busbw / GIGA / group.sharing
    channels, ctas = topology.channels, topology.ctas
    ring = tree = intra
    if group.n_nodes > 1:
        channels = max(1, (topology.net_channels or channels) // group.sharing)
        ctas = max(1, (topology.net_ctas or ctas) // group.sharing)
        alone = group.per_node == 1
        ring = net if alone else min(intra, net)
        # Of two nodes, each is the root of one tree and a leaf of the other: half the bytes cross.
        tree = min(intra, 2 * net) if group.n_nodes == 2 and not alone else ring  # noqa: PLR2004 - two
    heads, head = _heads(group, topology, cluster)
    return Seen(
        topology=topology,
        n_ranks=group.n_ranks,
        per_node=group.per_node,
        n_nodes=group.n_nodes,
        scale=min(group.n_nodes, 3) - 1,
        channels=channels,
        ctas=ctas,
        ring=ring,
        tree=tree,
        heads=heads,
        head=head,
        net=net,
    )


def _topology(cluster: Cluster) -> Topology:
    if cluster.backend != "nccl":
        raise ScenarioError(
            f"cluster.collectives is '{cluster.collectives}', but '{cluster.name}' runs "
            f"{cluster.backend}: give ring, alpha-beta or table"
        )
    if cluster.topology is None:
        raise ScenarioError(
            f"cluster.collectives is '{cluster.collectives}', but nothing is known of the topology "
            f"of '{cluster.name}': give ring, alpha-beta or table"
        )
    return cluster.topology


def _heads(group: Placement, topology: Topology, cluster: Cluster) -> tuple[int, float]:
    """NVLS heads and the speed of one: a GPU's links carry a unit a head, and two of its own."""
    speeds = NVLS_SPEEDS.get(topology.architecture)
    heads = min(group.per_node, topology.nvls_heads, NVLS_MAX_HEADS)
    if speeds is None or group.per_node < NVLS_MIN_RANKS or heads < 2:  # noqa: PLR2004 - NVLS needs two
        return 0, 0.0
    fits = topology.nvls_link / GIGA / (heads + 1)
    speed = next((s for s in speeds if s <= fits), speeds[-1])
    turned = cluster.intra.busbw / (topology.channels * topology.channel_busbw)
    return heads, speed * turned
