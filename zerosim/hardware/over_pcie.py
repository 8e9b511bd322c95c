"""Machines whose GPUs talk over PCIe, and a cluster of plain Ethernet."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zerosim.hardware.devices import A100_PCIE_80GB, L40S_48GB, RTX_4090_24GB
from zerosim.hardware.fabrics import ROCE, TCP
from zerosim.hardware.machine import NCCL_BASE_S, Machine
from zerosim.hardware.parts import OVER_PCIE, cards, over_pcie, pcie
from zerosim.hardware.published import Published
from zerosim.kinds import Kind

_CARD: Final = "assumed: one card of 200 Gbit/s (such boxes differ)"

_SIMUMAX: Final = "MooreThreads/SimuMax configs/system/a100_pcie.json @4dcaae5: a fitted rate"

A100_PCIE: Final = Machine(
    name="a100-pcie",
    says="8 A100 80 GB on PCIe 4, one 200 Gbit/s card",
    device=A100_PCIE_80GB,
    ranks_per_node=8,
    intra=pcie(12.4e9),
    inter=cards(1, 200, "roce"),
    fabric=ROCE,
    base_s=NCCL_BASE_S,
    topology=over_pcie("ampere", 12.4e9),
    sources=OVER_PCIE
    | {
        "intra_busbw": "fitted by MooreThreads/SimuMax configs/system/a100_pcie.json @4dcaae5 on 8 "
        "ranks: all-gather 13.5, all-reduce 12.5, reduce-scatter 11.1 GB/s; their mean",
        "inter_busbw": _CARD,
    },
    published=(
        Published(Kind.ALL_REDUCE, 8, 2**30, 12.5e9, _SIMUMAX),
        Published(Kind.ALL_GATHER, 8, 2**30, 13.5e9, _SIMUMAX, within=0.1),
        Published(Kind.REDUCE_SCATTER, 8, 2**30, 11.1e9, _SIMUMAX, within=0.12),
    ),
)
L40S: Final = replace(
    A100_PCIE,
    name="l40s",
    says="8 L40S 48 GB on PCIe 4, one 200 Gbit/s card",
    device=L40S_48GB,
    published=(),
    sources=A100_PCIE.sources
    | {"intra_busbw": "assumed: as 8 A100 on PCIe 4 (12.4 GB/s), since nothing is published"},
)
RTX_4090: Final = replace(
    A100_PCIE,
    name="rtx-4090",
    says="8 RTX 4090 24 GB on PCIe 4 without peer access, 10 Gbit Ethernet",
    device=RTX_4090_24GB,
    intra=pcie(5e9),
    inter=cards(1, 10, "ethernet"),
    fabric=TCP,
    topology=over_pcie("ampere", 5e9),
    sources=OVER_PCIE
    | {
        "intra_busbw": "NVIDIA/nccl-tests issue 307: the log's ring is 1 x 5 GB/s, through host memory",
        "inter_busbw": "assumed: 10 Gbit Ethernet (such boxes differ)",
    },
    published=(),
)
ETHERNET: Final = replace(
    A100_PCIE,
    name="ethernet",
    says="one A100 80 GB a node, 25 Gbit Ethernet and TCP",
    ranks_per_node=1,
    inter=cards(1, 25, "ethernet"),
    fabric=TCP,
    sources=OVER_PCIE
    | {
        "intra_busbw": "not used: one GPU a node; as 8 A100 on PCIe 4",
        "inter_busbw": "one card x 3.1 GB/s, nominal; plain TCP between large cloud nodes was ~4 GB/s "
        "(docs.nvidia.com/aicr gke-tcpxo-networking)",
    },
    published=(),
)
