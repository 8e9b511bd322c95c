"""What machines of one generation share: links inside a node, network cards, NCCL's rings over them."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Link, Topology
from zerosim.hardware.machine import NCCL_SOURCE, NETWORK_HOP_S, NVLINK_HOP_S, PCIE_HOP_S

RINGS: Final = "rings found as NVIDIA/nccl src/graph/search.cc @5067397 does"
_BLOCKS: Final = "thread blocks twice the rings (connected twice: src/graph/connect.cc)"
VOLTA: Final = {"latency": NCCL_SOURCE, "topology": f"derived: {RINGS}; {_BLOCKS}"}
AMPERE: Final = VOLTA | {
    "topology": f"derived: {RINGS}; {_BLOCKS}, 24 as the log of NVIDIA/nccl-tests issue 100 shows"
}
HOPPER: Final = VOLTA | {
    "topology": f"derived: {RINGS}; {_BLOCKS}, 24 as a profile shows (forums.developer.nvidia.com "
    "337991); NVLS: 18 links x 20.6 GB/s, the 370.8 of a log (NVIDIA/nccl issue 1189), 16 blocks"
}
BLACKWELL: Final = VOLTA | {
    "topology": f"derived: {RINGS}; {_BLOCKS}; NVLS: 18 links x 40.1 GB/s, 24 blocks"
}
OVER_PCIE: Final = VOLTA | {
    "topology": "assumed: one ring, doubled; no LL128 (NVIDIA/nccl src/graph/tuning.cc @5067397)"
}

NVLINK2: Final = Link("nvlink", busbw=120e9, hop_s=NVLINK_HOP_S)
NVSWITCH1: Final = Link("nvswitch", busbw=120e9, hop_s=NVLINK_HOP_S)
NVSWITCH2: Final = Link("nvswitch", busbw=240e9, hop_s=NVLINK_HOP_S)
NVSWITCH3: Final = Link("nvswitch", busbw=360e9, hop_s=NVLINK_HOP_S)
NVSWITCH4: Final = Link("nvswitch", busbw=720e9, hop_s=NVLINK_HOP_S)


def pcie(busbw: float) -> Link:
    """GPUs of a node that talk over PCIe, at what a ring of all of them reaches."""
    return Link("pcie", busbw=busbw, hop_s=PCIE_HOP_S)


def cards(n: int, gbps: float, name: str = "infiniband") -> Link:
    """`n` network cards of `gbps` Gbit/s each, used together by a node."""
    return Link(name, busbw=n * gbps * 1e9 / 8, hop_s=NETWORK_HOP_S)


def volta(*, cpu: str = "intel") -> Topology:
    """Six NVLinks a GPU: six rings of 20 GB/s, doubled."""
    return Topology("volta", channels=6, channel_busbw=20e9, ctas=12, cpu=cpu)


def ampere(*, cpu: str = "intel") -> Topology:
    """Twelve NVLinks a GPU: twelve rings of 20 GB/s, doubled."""
    return Topology("ampere", channels=12, channel_busbw=20e9, ctas=24, cpu=cpu)


def hopper(*, cpu: str = "intel") -> Topology:
    """Eighteen NVLinks a GPU: twelve rings of 30 GB/s, doubled, and NVLS over the switches."""
    return Topology(
        "hopper",
        channels=12,
        channel_busbw=30e9,
        ctas=24,
        cpu=cpu,
        nvls_heads=8,
        nvls_link=18 * 20.6e9,
        nvls_ctas=16,
    )


def blackwell(*, cpu: str = "intel", heads: int = 8) -> Topology:
    """Eighteen NVLinks a GPU, twice as fast: sixteen rings of 45 GB/s, doubled, and NVLS."""
    return Topology(
        "blackwell",
        channels=16,
        channel_busbw=45e9,
        ctas=32,
        cpu=cpu,
        nvls_heads=heads,
        nvls_link=18 * 40.1e9,
        nvls_ctas=24,
    )


def over_pcie(architecture: str, busbw: float, *, channels: int = 1) -> Topology:
    """Rings over PCIe and host bridges, doubled; no LL128, no NVLS."""
    return Topology(
        architecture,
        channels=channels,
        channel_busbw=busbw / channels,
        ctas=2 * channels,
        intra="pci",
        ll128=False,
    )
