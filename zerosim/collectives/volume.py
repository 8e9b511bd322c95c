"""Bytes on the wire: how often a collective moves its tensor past every rank, and what one rank sends."""

from __future__ import annotations

from typing import Final

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind

_PASSES: Final[dict[Kind, int]] = {
    Kind.ALL_GATHER: 1,
    Kind.REDUCE_SCATTER: 1,
    Kind.ALL_REDUCE: 2,
    Kind.REDUCE: 1,
    Kind.BROADCAST: 1,
    Kind.ALL_TO_ALL: 1,
    Kind.P2P: 1,
}
"""How often a ring moves the tensor past every rank."""
COSTED: Final = tuple(_PASSES)
"""The kinds that have a cost."""
PIPELINES: Final = (Kind.REDUCE, Kind.BROADCAST, Kind.P2P)
"""Kinds whose bytes pass each link whole: one sender or receiver, or each rank sends to the next."""


GLOO: Final = "gloo"
GLOO_ALL_TO_ALL: Final = "gloo-all-to-all"
"""Gloo whose reduce-scatters are an all-to-all and a sum, so that they move no all-reduce."""
GLOOS: Final = (GLOO, GLOO_ALL_TO_ALL)
SCATTERS: Final = {"native": GLOO, "all-to-all": GLOO_ALL_TO_ALL}
"""How Gloo may reduce-scatter, and what it is called then."""


def passes(kind: Kind, backend: str) -> int:
    """How often the tensor passes every rank. Gloo's own reduce-scatter is an all-reduce inside."""
    if kind not in _PASSES:
        raise ScenarioError(f"no cost model for '{kind}': known are {', '.join(_PASSES)}")
    if kind is Kind.REDUCE_SCATTER and backend == GLOO:
        return _PASSES[Kind.ALL_REDUCE]
    return _PASSES[kind]


def wire_bytes(kind: Kind, nbytes: int, n_ranks: int, backend: str = "nccl") -> int:
    """Bytes one rank sends for a collective over the full tensor of `nbytes`, rounded up.

    Of a broadcast or a reduce: the mean over the ranks. Point to point, each rank sends all of them.
    """
    if kind is Kind.P2P:
        return nbytes
    return -(-passes(kind, backend) * nbytes * (n_ranks - 1) // n_ranks)


def node_bytes(kind: Kind, nbytes: int, n_ranks: int, per_node: int, backend: str) -> int:
    """Bytes that leave a node of `per_node` of Gloo's `n_ranks`, rounded up; none if there is one node.

    Gloo has one ring, each edge of which carries what a rank sends, and one edge leaves a node. What
    goes by all-to-all leaves it once for each rank inside and each outside.
    """
    if n_ranks <= per_node:
        return 0
    if kind is Kind.REDUCE_SCATTER and backend == GLOO_ALL_TO_ALL:
        return -(-nbytes * per_node * (n_ranks - per_node) // n_ranks)
    if kind in PIPELINES:
        return nbytes
    return wire_bytes(kind, nbytes, n_ranks, backend)


def bus_factor(kind: Kind, n_ranks: int) -> float:
    """What nccl-tests multiplies bytes / time with to get the rate of a link (doc/PERFORMANCE.md)."""
    if kind in PIPELINES:
        return 1.0
    return _PASSES[kind] * (n_ranks - 1) / n_ranks
