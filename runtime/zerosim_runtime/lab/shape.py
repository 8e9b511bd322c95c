"""What a lab looks like: nodes, ranks, links, and how long one may wait on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.errors import InputError
from zerosim.plan import Plan
from zerosim_runtime.watchdog import TIMEOUT_S

MAX_NODES: Final = 64
MAX_RANKS_PER_NODE: Final = 64
MTU: Final = 1500
PORT: Final = 29500
"""Where the agents meet; a lab's first node has all ports to itself."""
_TCP_BYTES: Final = 52
"""Headers of IP and TCP, with time stamps."""
_ETHERNET_BYTES: Final = 14
_PATIENCE: Final = 4
_LOWEST_RATE: Final = 125e3
_HIGHEST_RATE: Final = 12.5e9
_LONGEST_S: Final = 1.0
_SMALLEST_MTU: Final = 576
_LARGEST_MTU: Final = 9000


@dataclass(frozen=True, slots=True)
class Shape:
    """`nodes` of `ranks_per_node` ranks. `inter`: the rate of a node's uplink, each way, bytes a second.

    `intra`: the same of a node's loopback, which all its ranks share (None: as fast as it is).
    `latency_s` is added to each way between two nodes. `mtu`: bytes of a packet between nodes.
    """

    nodes: int
    ranks_per_node: int
    inter: float
    intra: float | None = None
    latency_s: float = 0.0
    mtu: int = MTU

    def __post_init__(self) -> None:
        """Refuse what no lab of this kind can be."""
        for what, size, most in (
            ("--nodes", self.nodes, MAX_NODES),
            ("--ranks-per-node", self.ranks_per_node, MAX_RANKS_PER_NODE),
        ):
            if not 1 <= size <= most:
                raise InputError(f"{what} is {size}: give 1 to {most}")
        for what, rate in (("--inter", self.inter), ("--intra", self.intra)):
            if rate is not None and not _LOWEST_RATE <= rate <= _HIGHEST_RATE:
                raise InputError(f"{what} is {format_rate(rate)}: give 1Mbit to 100Gbit")
        if not 0 <= self.latency_s <= _LONGEST_S:
            raise InputError(f"--latency is {self.latency_s:g} s: give 0us to 1s")
        if not _SMALLEST_MTU <= self.mtu <= _LARGEST_MTU:
            raise InputError(f"--mtu is {self.mtu}: give {_SMALLEST_MTU} to {_LARGEST_MTU}")

    @property
    def world_size(self) -> int:
        """All ranks."""
        return self.nodes * self.ranks_per_node

    def address(self, node: int) -> str:
        """The address of a node."""
        return f"10.0.0.{node + 1}"


def payload_share(mtu: int) -> float:
    """Of the bytes on a link, those that a program sent: 1448/1514 for packets of 1500 bytes."""
    return (mtu - _TCP_BYTES) / (mtu + _ETHERNET_BYTES)


def patience_s(plan: Plan, shape: Shape) -> float:
    """How long nothing may move before a run counts as hung: several times its largest collective."""
    largest = max((op.nbytes or 0 for op in plan.ops), default=0)
    rate = min(shape.inter, shape.intra or shape.inter)
    return max(TIMEOUT_S, _PATIENCE * 2 * largest / rate)


def format_rate(rate: float) -> str:
    """`200Mbit` for bytes a second."""
    bits = rate * 8
    for unit, size in (("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3)):
        if bits >= size:
            return f"{bits / size:g}{unit}"
    return f"{bits:g}bit"
