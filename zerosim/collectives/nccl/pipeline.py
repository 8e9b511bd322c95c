"""What NCCL's prediction leaves out: pieces that fill the pipeline of NVLS, and the share of a link reached.

# Note [Filling the pipeline]
NVLS cuts a tensor into pieces, and the first one must pass every stage before results come at the
full rate: one stage ahead inside a node (reduce, then hand out), and one up and one down for each
doubling of nodes with NVLSTree. A piece is a chunk for each head and channel; its size follows the
tensor's (NVIDIA/nccl @5067397, src/enqueue.cc, calcCollChunking). Trees have this in the tuner's
correction by size; rings keep every rank busy from the first piece on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zerosim.cluster import Cluster
from zerosim.collectives.nccl.constants import Algorithm
from zerosim.collectives.nccl.seen import GIGA, Seen, seen
from zerosim.collectives.nccl.tuner import nccl
from zerosim.collectives.placement import Placement, Transfer
from zerosim.kinds import Kind
from zerosim.units import NS_PER_S, seconds_to_ns

CHUNK: Final = 2**17
"""Bytes of NVLS's largest chunk (NCCL_NVLS_CHUNKSIZE)."""
MANY_NODES: Final = 4
MANY_NODES_CHUNK: Final = 2**16
"""From so many nodes on, NVLSTree's chunks are at most so large."""
_NVLS: Final = ((64, 2**16), (8, 2**15), (2, 2**14))
_NVLS_TREE: Final = ((32, 2**18), (16, 2**17), (4, 2**16), (1, 2**15))
"""Fewer than so many pieces: at most this chunk; one after the other."""


def nccl_pipelined(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> Transfer:
    """NCCL's choice, longer by what it leaves out. See Note [Filling the pipeline].

    Raises ScenarioError.
    """
    chosen = nccl(kind, nbytes, group, cluster)
    view = seen(group, cluster)
    wire_ns = _on_real_links(chosen, cluster, view)
    filling_s = _filling_s(nbytes, wire_ns / NS_PER_S, chosen.by.partition("/")[0], view)
    return replace(chosen, latency_ns=chosen.latency_ns + seconds_to_ns(filling_s), wire_ns=wire_ns)


def _on_real_links(chosen: Transfer, cluster: Cluster, view: Seen) -> int:
    """Longer by the share of the link inside a node, where that one sets the time."""
    bus = view.tree if chosen.by.startswith(Algorithm.TREE) else view.ring
    bound = view.per_node > 1 and bus >= cluster.intra.busbw / GIGA
    share = view.topology.intra_share if bound else 1.0
    return seconds_to_ns(chosen.wire_ns / NS_PER_S / share)


def _filling_s(nbytes: int, wire_s: float, algorithm: str, view: Seen) -> float:
    """Seconds of the pieces that come before the first result."""
    if algorithm not in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        return 0.0
    at_once = view.heads * (view.topology.nvls_ctas or view.ctas)
    if algorithm == Algorithm.NVLS:
        ahead, chunk = 1, _chunk(nbytes, at_once, CHUNK, _NVLS)
    else:
        ahead = 2 * (view.n_nodes.bit_length() - 1)
        own = MANY_NODES_CHUNK if view.n_nodes >= MANY_NODES else CHUNK
        chunk = _chunk(nbytes, at_once, view.topology.tree_chunk or own, _NVLS_TREE)
    return wire_s * min(1.0, ahead * at_once * chunk / nbytes)


def _chunk(nbytes: int, at_once: int, largest: int, steps: tuple[tuple[int, int], ...]) -> int:
    chunk = largest
    for pieces, size in steps:
        if nbytes < pieces * at_once * chunk and chunk > size:
            chunk = size
    return chunk
