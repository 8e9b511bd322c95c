"""The machine: devices, the links between them, and where each number comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from zerosim.errors import ScenarioError


@dataclass(frozen=True, slots=True)
class Device:
    """One rank's processor. Rates are per second; `efficiency` is the share of the peak reached.

    Attention and memory traffic reach shares of their own (`attention_efficiency` None: as matrix
    products do). Each kernel takes `launch_s` beside its work. `sms`: streaming multiprocessors, 0 if
    it has none or nobody knows.
    """

    name: str
    peak_flops: float
    memory_bytes: int
    memory_bandwidth: float
    efficiency: float
    launch_s: float
    attention_efficiency: float | None = None
    memory_efficiency: float = 1.0
    sms: int = 0


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
class Topology:
    """What NCCL's tuner asks about a machine beside its links' rates (src/graph/tuning.cc).

    `channels` are the rings that its search finds: they share the intra link's busbw evenly. `ctas`
    are the thread blocks, one an SM, that a ring collective takes. NVLS (`nvls_heads` 0: none) has
    heads of `nvls_head_gbs` bytes a second each and takes `nvls_ctas`. `net_latency_s` is what the
    fabric between nodes adds to a collective that crosses it.
    """

    architecture: str
    channels: int
    ctas: int
    intra: str = "nvlink"
    cpu: str = "intel"
    nvls_heads: int = 0
    nvls_head_gbs: float = 0.0
    nvls_ctas: int = 0
    nics: int = 1
    net_latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Contention:
    """What work that runs at once takes from each other; each can be switched off.

    `sms`: a collective's thread blocks leave fewer SMs to kernels; `memory`: its traffic leaves less
    memory bandwidth; `links`: transfers on one link share its rate.
    """

    sms: bool = False
    memory: bool = False
    links: bool = True


@dataclass(frozen=True, slots=True)
class Cluster:
    """`world_size` ranks in nodes of `ranks_per_node`. `base_s` is a collective's fixed latency.

    `backend` decides what a collective puts on the wire, `collectives` names the model of its time.
    `sources` names, for each number, where it
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
    collectives: str = "ring"
    topology: Topology | None = None
    contention: Contention = Contention()

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
