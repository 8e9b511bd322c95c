"""Machines with V100s: DGX-1, DGX-2, AWS p3, Jean Zay, and two of them on PCIe."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zerosim.cluster import Link, Topology
from zerosim.hardware.devices import (
    V100_PCIE_16GB,
    V100_SXM2_16GB,
    V100_SXM2_32GB,
    V100_SXM3_32GB,
    V100_SXM3_32GB_450W,
)
from zerosim.hardware.fabrics import INFINIBAND, OMNI_PATH, TCP
from zerosim.hardware.machine import NCCL_BASE_S, NVLINK_HOP_S, Machine
from zerosim.hardware.parts import (
    NVLINK2,
    NVSWITCH1,
    OVER_PCIE,
    RINGS,
    VOLTA,
    cards,
    over_pcie,
    pcie,
    volta,
)
from zerosim.hardware.published import Published
from zerosim.kinds import Kind

DGX_1: Final = Machine(
    name="dgx-1",
    says="8 V100 16 GB, six NVLinks each in a hybrid cube mesh, 4 InfiniBand EDR cards",
    device=V100_SXM2_16GB,
    ranks_per_node=8,
    intra=NVLINK2,
    inter=cards(4, 100),
    fabric=INFINIBAND,
    base_s=NCCL_BASE_S,
    topology=volta(),
    sources=VOLTA
    | {
        "intra_busbw": f"derived: 3 rings of single links, both ways, x 20 GB/s (datasheet DGX-1 with "
        f"V100: three interwoven rings); {RINGS}",
        "inter_busbw": "datasheet DGX-1: 4 EDR cards x 12.5 GB/s",
    },
)
DGX_1_32GB: Final = replace(
    DGX_1,
    name="dgx-1-32gb",
    says="DGX-1 with V100 32 GB",
    device=V100_SXM2_32GB,
)
DGX_2: Final = Machine(
    name="dgx-2",
    says="16 V100 32 GB on NVSwitch, 8 InfiniBand EDR cards",
    device=V100_SXM3_32GB,
    ranks_per_node=16,
    intra=NVSWITCH1,
    inter=cards(8, 100),
    fabric=INFINIBAND,
    base_s=NCCL_BASE_S,
    topology=volta(),
    sources=VOLTA
    | {
        "intra_busbw": "derived: 6 rings x 20 GB/s (NVIDIA/nccl src/graph/search.cc @5067397)",
        "inter_busbw": "8 EDR cards x 12.5 GB/s (arXiv 1910.02054 §10.1: 800 Gbps)",
    },
)
DGX_2H: Final = replace(
    DGX_2,
    name="dgx-2h",
    says="DGX-2 whose V100 take 450 W, 8 InfiniBand EDR cards",
    device=V100_SXM3_32GB_450W,
    sources=DGX_2.sources | {"inter_busbw": "datasheet DGX-2H: 8 EDR cards x 12.5 GB/s"},
)
AWS_P3: Final = Machine(
    name="aws-p3-8xlarge",
    says="4 V100 16 GB, half of a hybrid cube mesh, 10 Gbit Ethernet",
    device=V100_SXM2_16GB,
    ranks_per_node=4,
    intra=Link("nvlink", busbw=80e9, hop_s=NVLINK_HOP_S),
    inter=cards(1, 10, "ethernet"),
    fabric=TCP,
    base_s=NCCL_BASE_S,
    topology=Topology("volta", channels=4, channel_busbw=20e9, ctas=8),
    sources=VOLTA
    | {
        "intra_busbw": "derived: four of a GPU's six NVLinks stay inside, 2 rings both ways x 20 GB/s; "
        f"{RINGS}",
        "inter_busbw": "datasheet p3.8xlarge: 10 Gbit/s",
    },
)
_BANDWIDTH: Final = "bigscience-workshop/bigscience experiments/bandwidth @9e64ede"
_JEAN_ZAY: Final = (
    "the stand-in's constants are InfiniBand's: all that is published of this network is for testing, "
    "and shows an eighth to a fifth of its four links"
)
JEAN_ZAY_V100: Final = Machine(
    name="jean-zay-v100",
    says="4 V100 32 GB, two NVLinks a pair, 4 Omni-Path links",
    device=V100_SXM2_32GB,
    ranks_per_node=4,
    intra=NVLINK2,
    inter=cards(4, 100, "omni-path"),
    fabric=OMNI_PATH,
    base_s=NCCL_BASE_S,
    topology=volta(),
    sources=VOLTA
    | {
        "intra_busbw": f"derived: 3 rings both ways x 20 GB/s, if every pair has two links; {RINGS}",
        "inter_busbw": "4 Omni-Path links (bigscience model cards: 4 GPUs per node, 4 OmniPath links) "
        "x 12.5 GB/s (datasheet Omni-Path 100)",
    },
    published=(
        Published(
            Kind.ALL_REDUCE,
            4,
            4 * 10**9,
            124.0e9,
            f"{_BANDWIDTH}: n1_32gb_all_reduce_bench.txt",
            "test",
        ),
        Published(
            Kind.ALL_REDUCE,
            16,
            4 * 10**9,
            10.6e9,
            f"{_BANDWIDTH}: all_reduce_bench-32gb-n4.txt",
            "test",
            off=_JEAN_ZAY,
        ),
        Published(
            Kind.ALL_REDUCE,
            64,
            4 * 10**9,
            7.0e9,
            f"{_BANDWIDTH}: n16_32gb_all_reduce_bench.txt",
            "test",
            off=_JEAN_ZAY,
        ),
    ),
)
V100_PAIR: Final = Machine(
    name="v100-pcie-pair",
    says="2 V100 16 GB on PCIe 3",
    device=V100_PCIE_16GB,
    ranks_per_node=2,
    intra=pcie(7.1e9),
    inter=cards(1, 10, "ethernet"),
    fabric=TCP,
    base_s=NCCL_BASE_S,
    topology=over_pcie("volta", 7.1e9),
    sources=OVER_PCIE
    | {
        "intra_busbw": "measured: nccl-tests, all-reduce of 128 MiB over two of them (a public log)",
        "inter_busbw": "assumed, 10 Gbit Ethernet",
    },
    published=(
        Published(
            Kind.ALL_REDUCE, 2, 128 * 2**20, 7.09e9, "nccl-tests log of two V100-PCIE-16GB (public)"
        ),
    ),
)
