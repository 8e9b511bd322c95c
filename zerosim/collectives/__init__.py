"""What a collective costs: bytes on the wire, the load it puts on each link, and its time alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zerosim.cluster import Cluster
from zerosim.collectives.placement import Placement, Transfer, capacities, placed
from zerosim.collectives.ring import ring
from zerosim.collectives.volume import passes, wire_bytes
from zerosim.kinds import Kind
from zerosim.registry import Registry

Model = Callable[[Kind, int, Placement, Cluster], Transfer]
"""Kind, bytes of the full tensor, where the group of two or more ranks lies, and the cluster."""
COLLECTIVES: Final[Registry[Model]] = Registry("model of collectives", {"ring": ring})
"""The models of a collective's time, by `Cluster.collectives`."""


def transfer(kind: Kind, nbytes: int, n_ranks: int, cluster: Cluster, stride: int = 1) -> Transfer:
    """A collective over `n_ranks` ranks, `stride` apart, by the cluster's model.

    Raises UnknownNameError for a model that does not exist, ScenarioError for a kind that has no cost
    and for a model that lacks what it needs.
    """
    model = COLLECTIVES[cluster.collectives]
    if n_ranks == 1:
        return Transfer(0, ())
    return model(kind, nbytes, placed(n_ranks, cluster, stride), cluster)


__all__ = ["COLLECTIVES", "Model", "Transfer", "capacities", "passes", "transfer", "wire_bytes"]
