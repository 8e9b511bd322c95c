"""The machine: devices, the links between them, and where each number comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from zerosim.errors import ScenarioError


@dataclass(frozen=True, slots=True)
class Device:
    """One rank's processor. Rates are per second; `efficiency` is the share of the peak reached.

    An op takes `launch_s + flops / (efficiency · peak_flops) + bytes / memory_bandwidth`.
    """

    name: str
    peak_flops: float
    memory_bytes: int
    memory_bandwidth: float
    efficiency: float
    launch_s: float


@dataclass(frozen=True, slots=True)
class Link:
    """One kind of wire. `busbw` is the bus bandwidth that nccl-tests reports, bytes a second.

    Inside a node it is one rank's ring bandwidth, between nodes the sum of a node's network cards.
    `hop_s` is the latency of one message.
    """

    name: str
    busbw: float
    hop_s: float


@dataclass(frozen=True, slots=True)
class Host:
    """The host thread's cost of issuing an op: a kernel, a collective.

    `computes`: the host is the device (a CPU), so it issues nothing while it computes.
    """

    issue_s: float
    collective_s: float
    computes: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """`world_size` ranks in nodes of `ranks_per_node`. `base_s` is a collective's fixed latency.

    `backend` decides what a collective puts on the wire. `sources` names, for each number, where it
    is from: datasheet, measured, fitted on …, assumed.
    """

    name: str
    world_size: int
    ranks_per_node: int
    device: Device
    intra: Link
    inter: Link
    host: Host
    base_s: float
    backend: str = "nccl"
    sources: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse sizes below one, and rates that are no finite positive number."""
        for what, size in (
            ("world_size", self.world_size),
            ("ranks_per_node", self.ranks_per_node),
        ):
            if size < 1:
                raise ScenarioError(f"cluster.{what} is {size}: give at least 1")
        for what, rate in (
            ("peak_flops", self.device.peak_flops),
            ("memory_bytes", self.device.memory_bytes),
            ("memory_bandwidth", self.device.memory_bandwidth),
            ("efficiency", self.device.efficiency),
            ("intra_busbw", self.intra.busbw),
            ("inter_busbw", self.inter.busbw),
        ):
            if not math.isfinite(rate) or rate <= 0:
                raise ScenarioError(f"cluster.{what} is {rate}: give a finite number above 0")
        if self.device.efficiency > 1:
            raise ScenarioError(
                f"cluster.efficiency is {self.device.efficiency}: give a share above 0, at most 1"
            )
        for what, seconds in (
            ("launch_s", self.device.launch_s),
            ("intra_hop_s", self.intra.hop_s),
            ("inter_hop_s", self.inter.hop_s),
            ("issue_s", self.host.issue_s),
            ("collective_issue_s", self.host.collective_s),
            ("base_s", self.base_s),
        ):
            if not math.isfinite(seconds) or seconds < 0:
                raise ScenarioError(f"cluster.{what} is {seconds}: give a finite number, 0 or more")

    @property
    def n_nodes(self) -> int:
        """Nodes needed for all ranks; the last one may be partly used."""
        return -(-self.world_size // self.ranks_per_node)
