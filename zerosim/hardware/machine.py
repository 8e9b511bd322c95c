"""What a machine file says: rates by dtype, links, costs, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.cluster import Cluster, Device, Host, Link, Topology


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of node. `peak_flops` is by dtype (torch's names); the other fields are Cluster's."""

    name: str
    device: str
    ranks_per_node: int
    peak_flops: dict[str, float]
    memory_bytes: int
    memory_bandwidth: float
    efficiency: float
    launch_s: float
    intra: Link
    inter: Link
    host: Host
    base_s: float
    sources: dict[str, str]
    backend: str = "nccl"
    collectives: str = "ring"
    topology: Topology | None = None
    attention_efficiency: float | None = None
    memory_efficiency: float = 1.0
    sms: int = 0

    def cluster(self, world_size: int, dtype: str) -> Cluster:
        """`world_size` ranks on as many of these nodes as they need, computing in `dtype`."""
        return Cluster(
            name=self.name,
            world_size=world_size,
            ranks_per_node=self.ranks_per_node,
            device=Device(
                name=self.device,
                peak_flops=self.peak_flops.get(dtype, self.peak_flops["float32"]),
                memory_bytes=self.memory_bytes,
                memory_bandwidth=self.memory_bandwidth,
                efficiency=self.efficiency,
                launch_s=self.launch_s,
                attention_efficiency=self.attention_efficiency,
                memory_efficiency=self.memory_efficiency,
                sms=self.sms,
            ),
            intra=self.intra,
            inter=self.inter,
            host=self.host,
            base_s=self.base_s,
            backend=self.backend,
            sources=self.sources,
            collectives=self.collectives,
            topology=self.topology,
        )


NCCL_SOURCE: Final = "NVIDIA/nccl src/graph/tuning.cc @5067397: ring, Simple protocol"
NCCL_BASE_S: Final = 8.4e-6
NVLINK_HOP_S: Final = 3.4e-6
NETWORK_HOP_S: Final = 14e-6
"""All three from NCCL_SOURCE: latency of any ring collective, and of one hop on either link."""
HOST: Final = Host(issue_s=5e-6, collective_s=22e-6)
HOST_SOURCE: Final = (
    "kernel launch 4-6 µs assumed; a collective 22-25 µs fitted on the published 8xH200 "
    "all-reduce curve (stas00/ml-engineering @744d01e)"
)
