"""The closed list of what a span can be, and which kinds count as computing, communicating, waiting."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a span is. Set once, by whoever makes the trace; nobody reads it from a name again."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTE = "recompute"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    REDUCE = "reduce"
    BROADCAST = "broadcast"
    GATHER = "gather"
    SCATTER = "scatter"
    ALL_TO_ALL = "all_to_all"
    P2P = "p2p"
    BARRIER = "barrier"
    COLLECTIVE = "collective"  # some communication, which one is unknown (docs/adr/0009)
    OPTIMIZER = "optimizer"
    COPY = "copy"
    FILL = "fill"
    MEMORY_OP = "memory_op"
    WAIT = "wait"
    HOST = "host"
    OTHER = "other"


KINDS: Final = tuple(k.value for k in Kind)
COMMUNICATION: Final = (
    Kind.ALL_GATHER,
    Kind.REDUCE_SCATTER,
    Kind.ALL_REDUCE,
    Kind.REDUCE,
    Kind.BROADCAST,
    Kind.GATHER,
    Kind.SCATTER,
    Kind.ALL_TO_ALL,
    Kind.P2P,
    Kind.BARRIER,
    Kind.COLLECTIVE,
)
"""Kinds that keep the network busy: their union is the communication time."""
SIZED: Final = tuple(kind for kind in COMMUNICATION if kind is not Kind.BARRIER)
"""Communication that has a size."""
SAME_SIZE: Final = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_REDUCE, Kind.BROADCAST)
"""Collectives whose full tensor has as many elements on every rank."""
GATHERED: Final = (Kind.ALL_GATHER, Kind.GATHER)
"""Collectives whose full tensor is what comes out: a rank gives a part of it."""
MUTUAL: Final = (
    *(Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_REDUCE, Kind.ALL_TO_ALL),
    *(Kind.BARRIER, Kind.COLLECTIVE),
)
"""Collectives that end nowhere before all ranks have come: in the others some only send."""
COMPUTE: Final = (
    Kind.FORWARD,
    Kind.BACKWARD,
    Kind.RECOMPUTE,
    Kind.OPTIMIZER,
    Kind.COPY,
    Kind.FILL,
    Kind.OTHER,
)
"""Kinds that keep the device's compute units busy: their union is the compute time."""
MEMORY: Final = (Kind.MEMORY_OP,)
"""Kinds that only move memory (memcpy, memset)."""
HOST_SIDE: Final = (Kind.HOST, Kind.WAIT)
"""Kinds that are neither: the CPU, or a stream that waits."""
ORDERED: Final = (
    Kind.FORWARD,
    Kind.BACKWARD,
    Kind.OPTIMIZER,
    *(k for k in COMMUNICATION if k is not Kind.COLLECTIVE),
)
"""Kinds that stand in the one-line order of a step (`AG0 F0 … OPT`)."""

PREFIX: Final[dict[Kind, str]] = {
    Kind.FORWARD: "F",
    Kind.BACKWARD: "B",
    Kind.RECOMPUTE: "R",
    Kind.ALL_GATHER: "AG",
    Kind.REDUCE_SCATTER: "RS",
    Kind.ALL_REDUCE: "AR",
    Kind.REDUCE: "RED",
    Kind.BROADCAST: "BC",
    Kind.ALL_TO_ALL: "A2A",
    Kind.OPTIMIZER: "OPT",
    Kind.FILL: "fill",
    Kind.COPY: "copy",
    Kind.WAIT: "wait",
}
"""How ops of a kind are called in a plan: prefix + unit, e.g. `AG0`."""


class Reuse(StrEnum):
    """When memory that an op of another stream has dropped serves its own stream again."""

    ORDERED = "ordered"
    """Once its stream must run after that op, or the op has ended."""
    DROPPED = "dropped"
    """At once: the engine drops it after it has let the stream wait for the last use (FSDP2)."""
    RECORDED = "recorded"
    """Once the host finds that the op has ended (`tensor.record_stream`: FSDP1, DeepSpeed)."""


MEMORY_KINDS: Final = (
    "parameters",
    "gathered",
    "gradients",
    "buckets",
    "optimizer",
    "activations",
    "logits",
    "workspace",
)
"""What an allocation is for; also the names of the memory counters."""
