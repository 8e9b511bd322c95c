"""What a collective costs: bytes on the wire, the load it puts on each link, and its time alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zerosim.cluster import Cluster
from zerosim.collectives.alpha_beta import alpha_beta
from zerosim.collectives.hierarchical import hierarchical
from zerosim.collectives.nccl import nccl, nccl_pipelined
from zerosim.collectives.placement import Placement, Transfer, capacities, placed
from zerosim.collectives.ring import ring
from zerosim.collectives.table import table
from zerosim.collectives.volume import (
    COSTED,
    GLOO,
    GLOO_ALL_TO_ALL,
    GLOOS,
    SCATTERS,
    bus_factor,
    node_bytes,
    passes,
    wire_bytes,
)
from zerosim.kinds import Kind
from zerosim.registry import Registry


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a collective's time.

    `cost` is given the kind, the bytes of the full tensor, where the group of two or more ranks lies,
    and the cluster. `latencies` are the cluster's latency knobs that it reads.
    """

    cost: Callable[[Kind, int, Placement, Cluster], Transfer]
    latencies: tuple[str, ...] = ()


LATENCIES: Final = ("base_s", "intra_hop_s", "inter_hop_s")
"""The cluster's latency knobs."""
COLLECTIVES: Final = Registry(
    "model of collectives",
    {
        "ring": Model(ring, LATENCIES),
        "nccl": Model(nccl),
        "nccl-pipelined": Model(nccl_pipelined),
        "hierarchical": Model(hierarchical),
        "alpha-beta": Model(alpha_beta, ("base_s",)),
        "table": Model(table),
    },
)
"""The models of a collective's time, by `Cluster.collectives`."""


def transfer(kind: Kind, nbytes: int, n_ranks: int, cluster: Cluster, stride: int = 1) -> Transfer:
    """A collective over `n_ranks` ranks, `stride` apart, by the cluster's model.

    Raises UnknownNameError for a model that does not exist, ScenarioError for a kind that has no cost
    and for a model that lacks what it needs.
    """
    model = COLLECTIVES[cluster.collectives]
    if n_ranks == 1:
        return Transfer(0, ())
    return model.cost(kind, nbytes, placed(n_ranks, cluster, stride), cluster)


__all__ = [
    "COLLECTIVES",
    "COSTED",
    "GLOO",
    "GLOOS",
    "GLOO_ALL_TO_ALL",
    "LATENCIES",
    "SCATTERS",
    "Model",
    "Transfer",
    "bus_factor",
    "capacities",
    "node_bytes",
    "passes",
    "transfer",
    "wire_bytes",
]
