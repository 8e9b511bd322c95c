"""Machines with B200s: DGX B200, AWS p6, and the GB200 rack whose NVLink joins 72."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zerosim.cluster import Link
from zerosim.hardware.devices import B200_SXM_180GB, GB200_186GB
from zerosim.hardware.fabrics import EFA_V4, INFINIBAND
from zerosim.hardware.machine import NCCL_BASE_S, NVLINK_HOP_S, Machine
from zerosim.hardware.parts import BLACKWELL, NVSWITCH4, blackwell, cards
from zerosim.hardware.published import Published
from zerosim.kinds import Kind

_INTRA: Final = "derived: 16 rings x 45 GB/s (NVIDIA/nccl src/graph/search.cc @5067397)"
_NETWORKS: Final = "stas00/ml-engineering network/README.md @744d01e"

_COREWEAVE: Final = "coreweave/nccl-tests README.md @cb86553 (NCCL 2.26.2)"

DGX_B200: Final = Machine(
    name="dgx-b200",
    says="8 B200 180 GB on NVSwitch, 8 InfiniBand NDR cards",
    device=B200_SXM_180GB,
    ranks_per_node=8,
    intra=NVSWITCH4,
    inter=cards(8, 400),
    fabric=INFINIBAND,
    base_s=NCCL_BASE_S,
    topology=blackwell(),
    sources=BLACKWELL
    | {"intra_busbw": _INTRA, "inter_busbw": "8 NDR cards x 50 GB/s (datasheet DGX B200)"},
    published=(
        Published(
            Kind.ALL_REDUCE,
            8,
            8 * 2**30,
            838e9,
            f"{_NETWORKS}: NVLS on AWS p6-b200",
            "test",
            within=0.18,
        ),
    ),
)
AWS_P6_B200: Final = replace(
    DGX_B200,
    name="aws-p6-b200",
    says="8 B200 180 GB on NVSwitch, 8 EFA cards of 400 Gbit/s",
    inter=cards(8, 400, "efa"),
    fabric=EFA_V4,
    topology=replace(blackwell(), tree_chunk=2**19),
    sources=DGX_B200.sources
    | {"inter_busbw": f"8 cards x 50 GB/s ({_NETWORKS}: EFA v4, 3,200 Gbit/s)"},
    published=(
        *DGX_B200.published,
        Published(Kind.ALL_REDUCE, 32, 16 * 2**30, 381.8e9, _NETWORKS, "test", within=0.1),
    ),
)
GB200_NVL72: Final = Machine(
    name="gb200-nvl72",
    says="72 GB200 186 GB joined by NVLink switches, 18 hosts of 4 InfiniBand NDR cards",
    device=GB200_186GB,
    ranks_per_node=72,
    intra=Link("nvlink switch", busbw=720e9, hop_s=NVLINK_HOP_S),
    inter=cards(72, 400),
    fabric=INFINIBAND,
    base_s=NCCL_BASE_S,
    topology=blackwell(cpu="other", heads=72),
    sources=BLACKWELL
    | {
        "intra_busbw": _INTRA,
        "inter_busbw": f"4 NDR cards x 50 GB/s a host, 18 hosts a rack ({_NETWORKS})",
    },
    published=(
        Published(Kind.ALL_REDUCE, 72, 8 * 2**30, 840e9, _COREWEAVE, "test", within=0.15),
        Published(Kind.ALL_REDUCE, 144, 16 * 2**30, 815e9, _COREWEAVE, "test", within=0.15),
        Published(
            Kind.ALL_REDUCE,
            1440,
            16 * 2**30,
            405.7e9,
            _COREWEAVE,
            "test",
            off="as if 16 cards a rack of the 72 carried the tree between racks",
        ),
    ),
)
