"""What a machine file says: device, links, network, with a source for each number and figures to meet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from zerosim.cluster import Cluster, Contention, Device, Host, Link, Topology
from zerosim.compute import table_of
from zerosim.hardware.calibration import Calibration, FabricConstants, merged, shipped
from zerosim.hardware.constants import device_constants, fabric_constants, launcher_constants
from zerosim.hardware.devices import Datasheet
from zerosim.hardware.published import Published


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of node, many of which make a cluster.

    `fabric` and `launcher` name the constants of a calibration; `own` holds constants for this machine
    alone. Kernels of GPUs whose topology is known feel the collectives beside them. Without a
    `fabric`, `inter` is what the network reaches; `inside` names the constants of the link inside a
    node, whose share is that of large tensors. `computes`: the host is the device.
    `collectives`: the model of their time (empty: nccl-pipelined where there is a topology, else ring).
    `sources` are of what is not the device's: intra_busbw, inter_busbw, latency.
    """

    name: str
    device: Datasheet
    ranks_per_node: int
    intra: Link
    inter: Link
    says: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    fabric: str = ""
    inside: str = ""
    launcher: str = "one process a GPU"
    base_s: float = 0.0
    backend: str = "nccl"
    collectives: str = ""
    topology: Topology | None = None
    computes: bool = False
    own: Calibration = field(default_factory=Calibration)
    published: tuple[Published, ...] = ()

    def cluster(self, world_size: int, dtype: str, given: Calibration | None = None) -> Cluster:
        """`world_size` ranks on as many of these nodes as they need, computing in `dtype`.

        `given` constants go before the machine's own, and those before the ones zerosim comes with.
        Raises ScenarioError where a constant is missing.
        """
        known = merged(shipped(), self.own)
        known = known if given is None else merged(known, given)
        computing = device_constants(self.device, known)
        network = fabric_constants(self.fabric, known)
        launching = launcher_constants(self.launcher, known)
        rates = self.device.peak_flops
        # NCCL's tuner takes what the network adds by itself; see below.
        tuned = self.topology is not None
        gpus = tuned and self.device.sms > 0
        return Cluster(
            name=self.name,
            world_size=world_size,
            ranks_per_node=self.ranks_per_node,
            device=Device(
                name=self.device.name,
                peak_flops=rates.get(dtype, rates["float32"]),
                memory_bytes=self.device.memory_bytes,
                memory_bandwidth=self.device.memory_bandwidth,
                efficiency=computing.efficiency,
                launch_s=computing.launch_s,
                attention_efficiency=computing.attention_efficiency,
                memory_efficiency=computing.memory_efficiency,
                sms=self.device.sms,
                shapes=table_of(self.device.name),
            ),
            intra=self.intra,
            inter=replace(
                self.inter,
                busbw=network.reached(self.inter.busbw),
                hop_s=self.inter.hop_s + (0.0 if tuned else network.net_latency_s),
            ),
            host=Host(launching.kernel_s, launching.issue_s, self.computes),
            base_s=self.base_s + (0.0 if tuned else network.net_base_s),
            backend=self.backend,
            measured=known.collective,
            ops=known.op,
            sources=self.device.sources
            | self.sources
            | {
                "efficiency": computing.source,
                "launch_s": computing.source,
                "fabric": network.source,
                "host": launching.source,
            },
            collectives=self.collectives or ("ring" if self.topology is None else "nccl-pipelined"),
            contention=Contention(sms=gpus, memory=gpus, hosts=network.kept(self.inter.busbw)),
            topology=None
            if self.topology is None
            else replace(
                self.topology,
                net_latency_s=self.topology.net_latency_s + network.net_latency_s,
                net_base_s=self.topology.net_base_s + network.net_base_s,
                intra_share=fabric_constants(self.inside, known).share,
            ),
        )

    def reached(self, rate: float, given: Calibration | None = None) -> float:
        """Bytes a second that arrive over a link between nodes of `rate`, by the constants as in `cluster`."""
        return self._network(given).reached(rate)

    def kept(self, rate: float, given: Calibration | None = None) -> float:
        """The share of `reached` that is left while hosts compute."""
        return self._network(given).kept(rate)

    def _network(self, given: Calibration | None) -> FabricConstants:
        known = merged(merged(shipped(), self.own), given or Calibration())
        return fabric_constants(self.fabric, known)


NCCL_SOURCE: Final = "NVIDIA/nccl src/graph/tuning.cc @5067397"
NCCL_BASE_S: Final = 8.4e-6
NVLINK_HOP_S: Final = 3.4e-6
PCIE_HOP_S: Final = 5.7e-6
NETWORK_HOP_S: Final = 14e-6
"""All four from NCCL_SOURCE: latency of any ring collective, and of one hop on each kind of link."""
