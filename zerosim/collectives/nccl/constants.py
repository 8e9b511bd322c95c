"""NCCL's constants, as src/graph/tuning.cc has them: microseconds and GB/s (10^9 bytes a second).

Source of every number: NVIDIA/nccl @5067397, src/graph/tuning.cc (latencies, caps, corrections),
src/graph/search.cc (speeds), src/include/device.h and src/enqueue.cc (threads and channels).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Algorithm(StrEnum):
    """How the ranks of a collective are joined; in NCCL's order, in which the first of equals wins."""

    TREE = "tree"
    RING = "ring"
    NVLS = "NVLS"
    NVLS_TREE = "NVLSTree"
    PAT = "PAT"


class Protocol(StrEnum):
    """How a message is handed over: LL and LL128 carry flags beside the data, Simple fences."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


Triple = tuple[float, float, float]
"""A number each for LL, LL128 and Simple; or for one node, two, and more."""
PROTOCOLS: Final = tuple(Protocol)
US: Final = 1e-6
"""Seconds."""

BASE_US: Final[dict[Algorithm, Triple]] = {
    Algorithm.TREE: (6.8, 14.0, 8.4),
    Algorithm.RING: (6.6, 14.0, 8.4),
    Algorithm.NVLS: (0.0, 0.0, 0.0),
    Algorithm.NVLS_TREE: (0.0, 0.0, 0.0),
    Algorithm.PAT: (8.0, 8.0, 8.0),
}
HOP_US: Final[dict[str, dict[Algorithm, Triple]]] = {
    "nvlink": {
        Algorithm.TREE: (0.6, 1.25, 4.0),
        Algorithm.RING: (0.6, 1.9, 3.4),
        Algorithm.NVLS: (0.0, 0.0, 25.0),
        Algorithm.NVLS_TREE: (0.0, 0.0, 25.0),
        Algorithm.PAT: (0.0, 0.0, 4.0),
    },
    "pci": {
        Algorithm.TREE: (1.0, 1.9, 4.0),
        Algorithm.RING: (1.0, 2.5, 5.7),
        Algorithm.NVLS: (0.0, 0.0, 0.0),
        Algorithm.NVLS_TREE: (0.0, 0.0, 0.0),
        Algorithm.PAT: (0.0, 0.0, 4.0),
    },
    "net": {
        Algorithm.TREE: (5.0, 8.5, 14.0),
        Algorithm.RING: (2.7, 4.0, 14.0),
        Algorithm.NVLS: (0.0, 0.0, 18.0),
        Algorithm.NVLS_TREE: (0.0, 0.0, 20.9),
        Algorithm.PAT: (0.0, 0.0, 14.0),
    },
}
"""One step, by the path that it takes."""
NET_OVERHEAD_US: Final[dict[str, float]] = {"intel": 1.0, "amd": 2.0, "other": 1.0}
"""Posting one message to a network card, by CPU; three times that with Simple."""
SIMPLE_POSTS: Final = 3
PEER_US: Final = 1.0
"""What a peer inside the node adds to grouped sends and receives: NCCL has no number for it. A set of
8 A100 driven by one process waited 53 µs longer for 7 peers than for an all-gather, which is 1 µs a
peer and GPU (microsoft/superbenchmark @700d650, nccl_alltoall.log)."""

LL_MAX_ONE_NODE: Final[dict[str, float]] = {
    "volta": 39.0,
    "ampere": 87.7,
    "hopper": 141.0,
    "blackwell": 282.0,
}
LL_MAX_NODES: Final[dict[str, Triple]] = {
    "intel": (39.0, 39.0, 20.4),
    "amd": (87.7, 22.5, 19.0),
    "other": (39.0, 39.0, 20.4),
}
"""Bus bandwidth of LL at most: by GPU inside a node, by CPU between nodes (first number unused)."""
RING_LL128_MAX: Final[dict[str, float]] = {
    "volta": 20.0,
    "ampere": 20.0,
    "hopper": 36.7,
    "blackwell": 40.0,
}
TREE_LL128_MAX: Final[dict[str, Triple]] = {
    "volta": (20.0, 20.0, 20.0),
    "ampere": (20.0, 20.0, 20.0),
    "hopper": (36.7, 36.7, 29.0),
    "blackwell": (55.6, 31.67, 20.0),
}
TREE_MAX: Final[dict[str, Triple]] = {
    "volta": (26.5, 18.5, 10.0),
    "ampere": (24.0, 23.6, 17.8),
    "hopper": (38.7, 41.4, 36.0),
    "blackwell": (70.0, 42.8, 24.0),
}
NVLS_TREE_MAX: Final[dict[str, Triple]] = {
    "volta": (26.5, 18.5, 10.0),
    "ampere": (24.0, 23.6, 17.8),
    "hopper": (0.0, 57.7, 45.5),
    "blackwell": (0.0, 96.0, 80.0),
}
"""At most so much a channel."""

LL_SHARE: Final = 0.5
LL128_SHARE: Final = 0.92
TREE_SHARE: Final = 0.92
TREE_LL_SHARE: Final = 1 / 3.8
TREE_LL128_SHARE: Final = (7 / 9, 120 / 128)
"""Inside a node, and between nodes."""
PLAIN_TREE_SHARE: Final = 0.85
"""A tree whose traffic with the network passes one GPU of a node."""
PAT_SHARE: Final = 0.75
NVLS_SHARE: Final[dict[str, float]] = {
    "volta": 0.0,
    "ampere": 0.0,
    "hopper": 0.85,
    "blackwell": 0.74,
}
NVLS_SPEEDS: Final[dict[str, tuple[float, ...]]] = {
    "hopper": (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    "blackwell": (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
}
"""Speeds that the search tries for a head inside a node; the first also bounds it."""
NVLS_MAX_HEADS: Final = 32
NVLS_MIN_RANKS: Final = 3
"""Ranks a node: with fewer, NCCL does not set NVLS up."""
PAT_LOG_SHARE: Final = 3.5
PAT_RANK_US: Final = 2.8

PLATEAU: Final[dict[str, float]] = {"volta": 1.9, "ampere": 1.4, "hopper": 1.4, "blackwell": 1.4}
PLATEAU_BYTES: Final = 64
"""From so many bytes a channel and rank on, a ring's all-reduce between nodes waits longer."""
TREE_CORRECTION: Final[dict[Protocol, tuple[float, ...]]] = {
    Protocol.LL: (
        *(1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5),
        *(0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0),
    ),
    Protocol.LL128: (
        *(1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6),
        *(0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0),
    ),
    Protocol.SIMPLE: (
        *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5),
        *(0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9),
    ),
}
"""Trees reach this share of their bandwidth, by powers of two of bytes from 64 on."""
TREE_CORRECTED: Final = 23
NVLS_TREE_CORRECTED: Final = 24
"""So many powers of two are corrected."""

THREADS: Final[dict[Protocol, int]] = {
    Protocol.LL: 512,
    Protocol.LL128: 640,
    Protocol.SIMPLE: 512,
}
BYTES_A_THREAD: Final[dict[Protocol, int]] = {
    Protocol.LL: 8,
    Protocol.LL128: 8,
    Protocol.SIMPLE: 64,
}
"""A channel is taken for every so many bytes a thread (times the ranks, for a ring with LL)."""
