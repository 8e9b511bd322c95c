"""What a collective costs: bytes on the wire, the load it puts on each link, and its time alone.

# Note [Ring model]
A ring moves each byte past every rank: with S the full tensor and n ranks, an all-gather or a
reduce-scatter sends S(n-1)/n per rank, an all-reduce twice that (nccl-tests, doc/PERFORMANCE.md).
A multi-channel ring enters each node once, so a node's network cards together carry S(n-g)/n for
g ranks a node; the slower of the two links sets the time. Latency is NCCL's ring/Simple
(src/graph/tuning.cc): a base, and one hop a step. A broadcast or a reduce is a pipeline: all of S
passes every link once (factor 1 of busbw), and n-1 of n ranks send it, S(n-1)/n in the mean. An
all-to-all sends S(n-1)/n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.cluster import Cluster
from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.units import seconds_to_ns

_PASSES: Final[dict[Kind, int]] = {
    Kind.ALL_GATHER: 1,
    Kind.REDUCE_SCATTER: 1,
    Kind.ALL_REDUCE: 2,
    Kind.REDUCE: 1,
    Kind.BROADCAST: 1,
    Kind.ALL_TO_ALL: 1,
}
"""How often a ring moves the tensor past every rank."""
_PIPELINES: Final = (Kind.REDUCE, Kind.BROADCAST)
"""Kinds that have one sender or receiver, so that all bytes pass each link."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A collective as the network sees it: a latency, then bytes over links, at once.

    `loads` are (link name, bytes). With its links to itself the transfer takes `wire_ns`, at least as
    long as the slowest link needs for its load. `ctas` are the SMs it takes from computing, `by` the
    algorithm and protocol, where the model chooses one.
    """

    latency_ns: int
    loads: tuple[tuple[str, int], ...]
    wire_ns: int = 0
    ctas: int = 0
    by: str = ""

    @property
    def alone_ns(self) -> int:
        """How long it takes with its links to itself, in whole nanoseconds."""
        return self.latency_ns + self.wire_ns


def passes(kind: Kind, backend: str) -> int:
    """How often the tensor passes every rank. Gloo's reduce-scatter is an all-reduce inside."""
    if kind not in _PASSES:
        raise ScenarioError(f"no cost model for '{kind}': known are {', '.join(_PASSES)}")
    if kind is Kind.REDUCE_SCATTER and backend == "gloo":
        return _PASSES[Kind.ALL_REDUCE]
    return _PASSES[kind]


def wire_bytes(kind: Kind, nbytes: int, n_ranks: int, backend: str = "nccl") -> int:
    """Bytes one rank sends for a collective over the full tensor of `nbytes`, rounded up.

    Of a broadcast or a reduce: the mean over the ranks.
    """
    return -(-passes(kind, backend) * nbytes * (n_ranks - 1) // n_ranks)


def transfer(kind: Kind, nbytes: int, n_ranks: int, cluster: Cluster, stride: int = 1) -> Transfer:
    """The latency and link loads of a collective over `n_ranks` ranks, `stride` apart.

    See Note [Ring model]. Groups that share a node's network cards load them together, so the load
    between nodes counts all groups of the axis that pass a node.
    """
    if n_ranks == 1:
        return Transfer(0, ())
    times = passes(kind, cluster.backend)
    per_node = max(1, min(n_ranks, cluster.ranks_per_node // stride))
    n_nodes = -(-n_ranks // per_node)
    between = times * (n_nodes - 1)
    latency_s = (
        cluster.base_s
        + (times * (n_ranks - 1) - between) * cluster.intra.hop_s
        + between * cluster.inter.hop_s
    )
    pipeline = kind in _PIPELINES
    sent = nbytes if pipeline else wire_bytes(kind, nbytes, n_ranks, cluster.backend)
    loads = [(cluster.intra.name, sent)]
    if n_nodes > 1:
        groups = max(1, min(stride, cluster.ranks_per_node // per_node))
        crossing = nbytes if pipeline else -(-times * nbytes * (n_ranks - per_node) // n_ranks)
        loads.append((cluster.inter.name, groups * crossing))
    capacity = capacities(cluster)
    wire_s = max(moved / capacity[link] for link, moved in loads)
    return Transfer(seconds_to_ns(latency_s), tuple(loads), seconds_to_ns(wire_s))


def capacities(cluster: Cluster) -> dict[str, float]:
    """Bytes a second of each link that transfers load."""
    return {cluster.intra.name: cluster.intra.busbw, cluster.inter.name: cluster.inter.busbw}
