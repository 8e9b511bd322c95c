"""The machine: devices, the links between them, and where each number comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from zerosim.errors import ScenarioError, UnknownNameError

ARCHITECTURES: Final = ("volta", "ampere", "hopper", "blackwell")
INTRA_PATHS: Final = ("nvlink", "pci")
CPUS: Final = ("intel", "amd", "other")


@dataclass(frozen=True, slots=True)
class Device:
    """One rank's processor. Rates are per second; `efficiency` is the share of the peak reached.

    Attention and memory traffic reach shares of their own (`attention_efficiency` None: as matrix
    products do). Each kernel takes `launch_s` beside its work. `sms`: streaming multiprocessors, 0 if
    it has none or nobody knows. `shapes`: the table of measured matrix products (compute.SHAPE_TABLES).
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
    shapes: str = "formula"


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
    """What NCCL's tuner knows of a machine beside its links' rates (docs/collectives.md names sources).

    `architecture`: volta, ampere, hopper or blackwell; `intra`: nvlink or pci, the path between GPUs
    of a node; `cpu`: intel, amd or other; `ll128`: whether that protocol may be used (NVLink, and no
    more than a PCIe bridge from GPU to network card). A node here is an NVLink domain.

    `channels` rings of `channel_busbw` bytes a second each are what NCCL's search finds inside a
    node; their product is the machine's own intra busbw, and they slow down and speed up with the
    cluster's. `ctas`: thread blocks, one an SM, of a ring or tree (after NCCL has doubled channels).
    Between nodes: `net_channels` and `net_ctas` likewise (0: as inside); `nics` network cards a node
    (0: one a rank), of which a single sender uses one.

    NVLS: `nvls_heads` in a full node (0: none), and `nvls_link`, the bytes a second that NCCL counts
    for all NVLink links of a GPU (H100: 18 x 20.6e9); a head gets the largest speed of NCCL's search
    that heads + 1 times fit. `nvls_ctas`: its thread blocks. `sharp`: switches of the network reduce.

    `net_latency_s`: NCCL's latencyInter, waited for once a step between nodes (twice with Simple);
    `net_base_s`: what the fabric adds once to a collective that crosses nodes.

    Of a network's plug-in: whether it lets protocols other than Simple be (`low_latency`), and the
    largest chunk of NVLSTree (`tree_chunk`, 0: NCCL's own). `intra_share`: the share of the intra
    link's rate that large tensors reach.
    """

    architecture: str
    channels: int
    channel_busbw: float
    ctas: int
    intra: str = "nvlink"
    cpu: str = "intel"
    ll128: bool = True
    nvls_heads: int = 0
    nvls_link: float = 0.0
    nvls_ctas: int = 0
    nics: int = 0
    net_channels: int = 0
    net_ctas: int = 0
    net_latency_s: float = 0.0
    net_base_s: float = 0.0
    sharp: bool = False
    low_latency: bool = True
    tree_chunk: int = 0
    intra_share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse words that the tuner does not know, and channels that carry nothing."""
        for what, word, known in (
            ("architecture", self.architecture, ARCHITECTURES),
            ("intra", self.intra, INTRA_PATHS),
            ("cpu", self.cpu, CPUS),
        ):
            if word not in known:
                raise UnknownNameError(f"topology {what}", word, known)
        for what, number in (
            ("channels", self.channels),
            ("channel_busbw", self.channel_busbw),
            ("ctas", self.ctas),
            ("intra_share", self.intra_share),
        ):
            if not math.isfinite(number) or number <= 0:
                raise ScenarioError(f"topology.{what} is {number}: give a number above 0")
        for what, number in (
            ("nvls_heads", self.nvls_heads),
            ("nvls_link", self.nvls_link),
            ("nvls_ctas", self.nvls_ctas),
            ("nics", self.nics),
            ("net_channels", self.net_channels),
            ("net_ctas", self.net_ctas),
            ("net_latency_s", self.net_latency_s),
            ("net_base_s", self.net_base_s),
            ("tree_chunk", self.tree_chunk),
        ):
            if not math.isfinite(number) or number < 0:
                raise ScenarioError(f"topology.{what} is {number}: give a number, 0 or more")
        if self.nvls_heads and not self.nvls_link:
            raise ScenarioError(
                f"topology.nvls_heads is {self.nvls_heads}, but nvls_link 0: give what NVLink carries"
            )


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of one collective over `n_ranks` ranks on `n_nodes` nodes, as a benchmark printed them.

    `kind` as in kinds; `times` are (bytes of the full tensor, seconds), bytes ascending. Full tensor:
    output of an all-gather, input of a reduce-scatter, the whole for the rest (nccl-tests' size).
    """

    kind: str
    n_ranks: int
    n_nodes: int
    times: tuple[tuple[int, float], ...]
    source: str

    def __post_init__(self) -> None:
        """Refuse no times, sizes that do not ascend, and times that are no finite positive number."""
        sizes = [nbytes for nbytes, _ in self.times]
        if not sizes or sizes[0] < 1 or sizes != sorted(set(sizes)):
            raise ScenarioError(
                f"measured {self.kind} of {self.source} has sizes {sizes[:4]}: give ascending sizes"
            )
        for nbytes, seconds in self.times:
            if not math.isfinite(seconds) or seconds <= 0:
                raise ScenarioError(
                    f"measured {self.kind} of {nbytes} bytes of {self.source} took {seconds} s: "
                    "give a finite number above 0"
                )


@dataclass(frozen=True, slots=True)
class OpTime:
    """What an op of a `kind` takes on this machine for a `unit`, whatever a formula says of it.

    Of an all-gather: to put the rows that arrived in place, by whoever waits for it.
    """

    kind: str
    unit: str
    seconds: float
    source: str


@dataclass(frozen=True, slots=True)
class Contention:
    """What work that runs at once takes from each other; each can be switched by itself.

    `communicators`: collectives of one communicator wait for each other; `links`: transfers on one
    link share its rate. Of kernels beside a running collective: `sms`: its thread blocks leave them
    fewer SMs; `memory`: its traffic leaves them less memory bandwidth; `tax`, in place of both: the
    share of their speed that they lose, whatever they do. `hosts`: the share of their speed that
    transfers between nodes keep while one of their ranks computes, where CPUs do both.
    """

    sms: bool = False
    memory: bool = False
    links: bool = True
    communicators: bool = True
    tax: float = 0.0
    hosts: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a tax that is no share, and one beside what it stands for; hosts that stand still."""
        if not 0 < self.hosts <= 1:
            raise ScenarioError(
                f"contention.hosts is {self.hosts}: give a share above 0, at most 1"
            )
        if not 0 <= self.tax < 1:
            raise ScenarioError(f"cluster.overlap_tax is {self.tax}: give a share from 0, below 1")
        if self.tax and (self.sms or self.memory):
            raise ScenarioError(
                f"cluster.overlap_tax is {self.tax} beside sm_contention or memory_contention, for "
                "which it stands: give one or the other"
            )

    @property
    def of_kernels(self) -> bool:
        """Whether kernels take longer beside a running collective."""
        return self.sms or self.memory or self.tax > 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """`world_size` ranks in nodes of `ranks_per_node`. `base_s` is a collective's fixed latency.

    `backend` decides what a collective puts on the wire, `collectives` names the model of its time:
    nccl needs `topology`, table needs `measured`.
    `sources` names, for each number, where it
    is from: datasheet, measured, fitted on …, assumed. `ops`: times of single ops, which go before
    what a formula says.
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
    measured: tuple[Measured, ...] = ()
    ops: tuple[OpTime, ...] = ()

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
