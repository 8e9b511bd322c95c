"""NCCL's choice: every algorithm and protocol that could run a collective, and the fastest of them.

# Note [NCCL's tuner]
NCCL predicts lat + bytes/bandwidth for each pair and takes the least (src/graph/tuning.cc,
ncclTopoTuneModel and ncclTopoGetAlgoTime). Its rates are of the tensor's bytes: the output of an
all-gather, the input of a reduce-scatter. What it has no rate for here: CollNet without NVLS, and
tuner plug-ins, which may choose otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zerosim.cluster import Cluster
from zerosim.collectives.nccl.bandwidth import algbw, available
from zerosim.collectives.nccl.constants import (
    BYTES_A_THREAD,
    PROTOCOLS,
    THREADS,
    US,
    Algorithm,
    Protocol,
)
from zerosim.collectives.nccl.latency import latency_us
from zerosim.collectives.nccl.p2p import GROUPED, grouped
from zerosim.collectives.nccl.seen import GIGA, Seen, seen
from zerosim.collectives.placement import Loads, Placement, Transfer, slowest_s
from zerosim.collectives.volume import passes, wire_bytes
from zerosim.kinds import Kind
from zerosim.units import seconds_to_ns


@dataclass(frozen=True, slots=True)
class Choice:
    """One pair that could run a collective: seconds before bytes count, then seconds of bytes."""

    algorithm: Algorithm
    protocol: Protocol
    latency_s: float
    wire_s: float

    @property
    def seconds(self) -> float:
        """What NCCL compares."""
        return self.latency_s + self.wire_s


def nccl(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> Transfer:
    """The collective as NCCL's tuner would run it. See Note [NCCL's tuner]. Raises ScenarioError."""
    if kind in GROUPED:
        return grouped(kind, nbytes, group, cluster)
    passes(kind, cluster.backend)
    view = seen(group, cluster)
    best = min(_considered(kind, nbytes, view), key=lambda choice: choice.seconds)
    fabric_s = view.topology.net_base_s if view.crosses else 0.0
    loads = _loads(kind, nbytes, best.algorithm, view, group.sharing, cluster)
    wire_s = max(best.wire_s, slowest_s(loads, cluster))
    return Transfer(
        latency_ns=seconds_to_ns(best.latency_s + fabric_s),
        loads=loads,
        wire_ns=seconds_to_ns(wire_s),
        ctas=_ctas(nbytes, best, view),
        by=f"{best.algorithm}/{best.protocol}",
    )


def choices(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> tuple[Choice, ...]:
    """What NCCL chooses from, in its order: the first of the fastest wins. Raises ScenarioError."""
    passes(kind, cluster.backend)
    return tuple(_considered(kind, nbytes, seen(group, cluster)))


def _considered(kind: Kind, nbytes: int, view: Seen) -> Iterator[Choice]:
    return (
        Choice(
            algorithm,
            protocol,
            latency_us(kind, nbytes, algorithm, protocol, view) * US,
            nbytes / (algbw(kind, nbytes, algorithm, protocol, view) * GIGA),
        )
        for algorithm in Algorithm
        for protocol in PROTOCOLS
        if available(kind, algorithm, protocol, view)
    )


def _loads(
    kind: Kind, nbytes: int, algorithm: Algorithm, view: Seen, sharing: int, cluster: Cluster
) -> Loads:
    """Bytes that one rank sends inside its node, and all of a node's cards together send."""
    inside, between = nbytes, nbytes
    per_node, n_nodes = view.per_node, view.n_nodes
    if kind not in (Kind.BROADCAST, Kind.REDUCE):
        inside = between = wire_bytes(kind, nbytes, view.n_ranks)
    if algorithm in (Algorithm.TREE, Algorithm.NVLS_TREE):
        between = -(-2 * nbytes * (n_nodes - 1) // n_nodes)
        inside = -(-2 * nbytes * (per_node - 1) // per_node)
    if algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE) and kind is Kind.ALL_REDUCE:
        # The switch reads every rank's copy, and a head writes its part once for all.
        inside = -(-nbytes * (view.heads + 1) // view.heads)
    if algorithm is Algorithm.NVLS and n_nodes > 1:
        between = nbytes
    loads = [(cluster.intra.name, inside)] if per_node > 1 else []
    if n_nodes > 1:
        loads.append((cluster.inter.name, sharing * between))
    return tuple(loads)


def _ctas(nbytes: int, choice: Choice, view: Seen) -> int:
    """Thread blocks: a channel each, fewer for few bytes; NVLS always takes its own."""
    if choice.algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        return view.topology.nvls_ctas or view.ctas
    worth = THREADS[choice.protocol] * BYTES_A_THREAD[choice.protocol]
    if choice.algorithm is Algorithm.RING and choice.protocol is Protocol.LL:
        worth *= view.n_ranks
    return max(1, min(view.ctas, nbytes // worth))
