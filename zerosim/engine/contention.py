"""Kernels beside collectives: what a running collective takes from them, and how much longer they take.

# Note [Kernels beside collectives]
A ring collective is a kernel, too: its thread blocks hold one SM each from when they start until
they end, waiting for the others included. A kernel of T tiles runs in ceil(T / SMs) waves; beside c
blocks in ceil(T / (SMs - c)): nearly twice as long for one wave (NVIDIA developer forum 337991: 24
blocks beside a product of 132 tiles on an H100), SMs / (SMs - c) for many. A tile of a matrix
product is taken as 128x128; work whose tiles nobody knows has many. While it moves, a ring reads and
writes the tensor about twice a pass, which leaves less memory bandwidth to kernels. What a launch
takes does not change, nor do copy engines, and collectives themselves keep their speed.
The flat tax is Calculon's `processor_usage`: 15 % beside NVLink, 2 % beside InfiniBand; measured
were 18.9 % longer kernels in the mean, at most 40 % (arXiv 2507.03114).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zerosim.cluster import Cluster, Device
from zerosim.collectives import Transfer, wire_bytes
from zerosim.plan import Axis, Op
from zerosim.units import NS_PER_S
from zerosim.workload import Matmul

FULL_SPEED: Final = 2**30
"""Speeds are whole numbers of this, and so is what is left of a kernel, however often it changes."""
WHOLE: Final = 2**20
"""The memory bandwidth of a device; what is taken of it is a whole number, so that sums are exact."""
_TILE: Final = 128
"""Rows and columns, assumed: cuBLAS picks others, too."""
_TOUCHES: Final = 2
"""How often a ring reads or writes what it moves: it receives a piece, and passes it on."""
_LEAST_BANDWIDTH: Final = 0.1
"""Kernels keep this share of the memory bandwidth, whatever collectives take: assumed."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What collectives take from kernels: SMs while they run, and bandwidth, of WHOLE, while they move.

    `running`: how many they are.
    """

    sms: int = 0
    bandwidth: int = 0
    running: int = 1

    @property
    def waiting(self) -> Taken:
        """What is taken while nothing moves."""
        return Taken(self.sms, 0, self.running)

    def moving(self, speed: float) -> Taken:
        """What is taken while bytes move at a share of their speed alone."""
        return Taken(self.sms, round(self.bandwidth * speed), self.running)


def together(taken: Iterable[Taken]) -> Taken:
    """What collectives take that run at once."""
    found = tuple(taken)
    return Taken(sum(t.sms for t in found), sum(t.bandwidth for t in found), len(found))


@dataclass(frozen=True, slots=True)
class Kernels:
    """What sets the time of an op, in shares of it: memory traffic, and computing by tiles.

    `tiles` are (how many of one kernel, 0 if unknown; share of the op's time). The rest is launches.
    """

    memory: float
    tiles: tuple[tuple[int, float], ...]


def waves_ratio(tiles: int, sms: int, taken: int) -> float:
    """How much longer a kernel of so many tiles takes without `taken` of the `sms`; 0 tiles: of many."""
    left = max(1, sms - taken)
    if not tiles:
        return sms / left
    return -(-tiles // left) / -(-tiles // sms)


def kernels_of(op: Op, duration_ns: int, device: Device) -> Kernels | None:
    """What sets the time of a compute op that takes `duration_ns`; None if it takes none."""
    if duration_ns == 0:
        return None
    ns = NS_PER_S / duration_ns
    launches = 1 if op.work is None else op.work.kernels
    bandwidth = device.memory_bandwidth * device.memory_efficiency
    memory = min(1.0, op.memory_bytes / bandwidth * ns)
    computing = max(0.0, 1.0 - memory - launches * device.launch_s * ns) if op.flops else 0.0
    return Kernels(memory, _tiles(op, computing))


def _tiles(op: Op, computing: float) -> tuple[tuple[int, float], ...]:
    """The share `computing` of an op's time by how many tiles its kernels have, by their FLOPs."""
    if not computing:
        return ()
    shares: dict[int, float] = {}
    products = () if op.work is None else op.work.matmuls
    known = sum(product.flops for product in products)
    total = max(op.flops, known)
    for product in products:
        tiles = tiles_of(product)
        shares[tiles] = shares.get(tiles, 0.0) + computing * product.flops / total
    if known < total:
        shares[0] = computing * (total - known) / total
    return tuple(shares.items())


def tiles_of(product: Matmul) -> int:
    """Tiles of one matrix product: 128 rows by 128 columns each."""
    return -(-product.m // _TILE) * -(-product.n // _TILE)


def taken_by(op: Op, axis: Axis, moved: Transfer, cluster: Cluster) -> Taken | None:
    """What a collective takes from kernels beside it; None if it is over at once."""
    if not moved.alone_ns:
        return None
    contention, sms, bandwidth = cluster.contention, 0, 0
    if contention.sms:
        sms = moved.ctas or (0 if cluster.topology is None else cluster.topology.ctas)
    if contention.memory and moved.wire_ns:
        sent = wire_bytes(op.kind, op.nbytes or 0, axis.size, cluster.backend)
        device = cluster.device
        rate = _TOUCHES * sent * NS_PER_S / moved.wire_ns
        share = rate / (device.memory_bandwidth * device.memory_efficiency)
        bandwidth = round(min(1.0, share) * WHOLE)
    return Taken(sms, bandwidth)


def slowed(kernels: Kernels, taken: Taken, sms: int, tax: float = 0.0) -> int:
    """The speed, of FULL_SPEED, of kernels on a device with `sms` from which so much is taken."""
    longer = 0.0
    if tax and taken.running:
        longer = 1 / (1 - tax) - 1
    elif taken.running:
        if sms and taken.sms:
            longer = sum(
                share * (waves_ratio(tiles, sms, taken.sms) - 1) for tiles, share in kernels.tiles
            )
        left = max(_LEAST_BANDWIDTH, 1 - taken.bandwidth / WHOLE)
        longer += kernels.memory * (1 / left - 1)
    # Rounded up, so that rounding never adds a nanosecond to what comes out whole.
    return math.ceil(FULL_SPEED / (1 + longer))
