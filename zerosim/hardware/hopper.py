"""Machines with H100s and H200s: DGX and HGX, AWS, Google, and those of published runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zerosim.hardware.devices import H100_96GB_500W, H100_SXM5_80GB, H200_SXM_141GB
from zerosim.hardware.fabrics import EFA_V2, EFA_V3, INFINIBAND, ROCE, ROCE_GIB, TCPX, TCPXO
from zerosim.hardware.machine import NCCL_BASE_S, Machine
from zerosim.hardware.parts import HOPPER, NVSWITCH3, cards, hopper
from zerosim.hardware.published import Published
from zerosim.kinds import Kind

_INTRA: Final = "derived: 12 rings x 30 GB/s (NVIDIA/nccl src/graph/search.cc @5067397)"
_NETWORKS: Final = "stas00/ml-engineering network/README.md @744d01e"

DGX_H100: Final = Machine(
    name="dgx-h100",
    says="8 H100 80 GB on NVSwitch, 8 InfiniBand NDR cards",
    device=H100_SXM5_80GB,
    ranks_per_node=8,
    intra=NVSWITCH3,
    inter=cards(8, 400),
    fabric=INFINIBAND,
    base_s=NCCL_BASE_S,
    topology=hopper(),
    sources=HOPPER
    | {
        "intra_busbw": f"{_INTRA}; measured all-gather 350-361 GB/s (NVIDIA/nccl-tests issue 326)",
        "inter_busbw": "8 NDR cards x 50 GB/s (datasheet)",
    },
    published=(
        Published(Kind.ALL_GATHER, 8, 16 * 2**30, 360e9, "NVIDIA/nccl-tests issue 326", "extra"),
        Published(
            Kind.ALL_GATHER,
            256,
            2 * 2**30,
            200e9,
            "NVIDIA/nccl issue 1218 (about; network not said)",
            "test",
            off="the issue asks why an all-gather reaches so much less than an all-reduce (340)",
        ),
        Published(
            Kind.ALL_REDUCE,
            256,
            2 * 2**30,
            340e9,
            "NVIDIA/nccl issue 1218 (about; network not said)",
            "test",
            within=0.1,
        ),
    ),
)
AWS_P5: Final = replace(
    DGX_H100,
    name="aws-p5",
    says="8 H100 80 GB on NVSwitch, 32 EFA cards of 100 Gbit/s",
    inter=cards(32, 100, "efa"),
    fabric=EFA_V2,
    topology=replace(hopper(cpu="amd"), tree_chunk=2**19),
    sources=HOPPER
    | {
        "intra_busbw": _INTRA,
        "inter_busbw": f"32 cards x 12.5 GB/s ({_NETWORKS}: EFA v2, 3,200 Gbit/s)",
        "tree_chunk": "aws/aws-ofi-nccl platform-aws sets NCCL_NVLSTREE_MAX_CHUNKSIZE to 512 KiB",
    },
    published=(
        Published(
            Kind.ALL_REDUCE,
            16,
            16 * 2**30,
            487.1e9,
            "aws-samples/awsome-distributed-training micro-benchmarks/nccl-tests/README.md @7217859",
            within=0.08,
        ),
    ),
)
GCP_A3_MEGA: Final = replace(
    DGX_H100,
    name="gcp-a3-mega",
    says="8 H100 80 GB on NVSwitch, 8 cards of 200 Gbit/s, GPUDirect-TCPXO",
    inter=cards(8, 200, "tcpxo"),
    fabric=TCPXO,
    sources=HOPPER
    | {
        "intra_busbw": _INTRA,
        "inter_busbw": f"8 cards x 25 GB/s ({_NETWORKS}: the headline of 1,800 Gbit/s counts the "
        "front-end card)",
    },
    published=(
        Published(
            Kind.ALL_GATHER,
            16,
            8 * 2**30,
            188.8e9,
            "GoogleCloudPlatform/cluster-toolkit examples/gke-a3-megagpu/README.md @1047080",
            within=0.08,
        ),
    ),
)
GCP_A3_HIGH: Final = replace(
    GCP_A3_MEGA,
    name="gcp-a3-high",
    says="8 H100 80 GB on NVSwitch, 4 cards of 200 Gbit/s, GPUDirect-TCPX",
    inter=cards(4, 200, "tcpx"),
    fabric=TCPX,
    sources=HOPPER
    | {"intra_busbw": _INTRA, "inter_busbw": f"4 cards x 25 GB/s ({_NETWORKS}: A3 High)"},
    published=(),
)
MOSAICML_H100: Final = replace(
    DGX_H100,
    name="mosaicml-h100",
    says="8 H100 80 GB on NVSwitch, network not stated (MosaicML's benchmarks)",
    inter=cards(8, 400, "roce"),
    fabric=ROCE,
    sources=HOPPER
    | {
        "intra_busbw": f"{_INTRA}; assumed: an NVSwitch board",
        "inter_busbw": "assumed: 8 RoCE cards of 400 Gbit/s, as usual for H100; "
        "mosaicml/llm-foundry scripts/train/benchmarking/README.md @495218376 does not say",
    },
    published=(),
)
TORCHTITAN_H100: Final = replace(
    MOSAICML_H100,
    name="torchtitan-h100",
    says="8 H100 96 GB of 500 W on NVSwitch, 8 RDMA cards of 400 Gbit/s (torchtitan's runs)",
    device=H100_96GB_500W,
    sources=HOPPER
    | {
        "intra_busbw": f"{_INTRA}; assumed: an NVSwitch board",
        "inter_busbw": "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md @b5bcd76: RDMA, "
        "400 Gb/s a GPU",
    },
)
IBM_VELA_H100: Final = replace(
    MOSAICML_H100,
    name="ibm-vela-h100",
    says="8 H100 80 GB on NVSwitch, 800 Gbit/s RoCE (IBM's FSDP runs)",
    inter=cards(8, 100, "roce"),
    sources=HOPPER
    | {
        "intra_busbw": f"{_INTRA}; assumed: an NVSwitch board",
        "inter_busbw": "pytorch.org blog 2024-03-13 (Maximizing training throughput): 800 Gbps between "
        "nodes; assumed: 8 cards of 100",
    },
)
HGX_H200: Final = replace(
    DGX_H100,
    name="hgx-h200",
    says="8 H200 141 GB on NVSwitch, 8 InfiniBand NDR cards",
    device=H200_SXM_141GB,
    sources=HOPPER
    | {
        "intra_busbw": f"{_INTRA}; measured all-gather 361.4, reduce-scatter 362.9 GB/s ({_NETWORKS})",
        "inter_busbw": "datasheet DGX H200: 8 NDR cards x 50 GB/s",
    },
    published=(
        Published(Kind.ALL_GATHER, 8, 16 * 2**30, 361.4e9, _NETWORKS),
        Published(Kind.REDUCE_SCATTER, 8, 16 * 2**30, 362.9e9, _NETWORKS),
        Published(Kind.ALL_REDUCE, 8, 16 * 2**30, 480.0e9, f"{_NETWORKS}: NVLS"),
    ),
)
AWS_P5EN: Final = replace(
    HGX_H200,
    name="aws-p5en",
    says="8 H200 141 GB on NVSwitch, 16 EFA cards of 200 Gbit/s",
    inter=cards(16, 200, "efa"),
    fabric=EFA_V3,
    topology=replace(hopper(), tree_chunk=2**19),
    sources=HGX_H200.sources
    | {"inter_busbw": f"16 cards x 25 GB/s ({_NETWORKS}: EFA v3, 3,200 Gbit/s)"},
)
GCP_A3_ULTRA: Final = replace(
    HGX_H200,
    name="gcp-a3-ultra",
    says="8 H200 141 GB on NVSwitch, 8 RoCE cards of 400 Gbit/s",
    inter=cards(8, 400, "roce"),
    fabric=ROCE_GIB,
    sources=HOPPER
    | {
        "intra_busbw": _INTRA,
        "inter_busbw": "cloud.google.com machine type a3-ultragpu-8g: 8 cards x 50 GB/s (3,200 Gbit/s)",
    },
    published=(
        Published(
            Kind.ALL_GATHER,
            16,
            8 * 2**30,
            332e9,
            "GoogleCloudPlatform/cluster-toolkit examples/gke-consumption-options/dws-flex-start/"
            "README.md @1047080",
            within=0.1,
        ),
    ),
)
