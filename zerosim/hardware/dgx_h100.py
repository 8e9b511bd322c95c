"""DGX H100: 8 H100 80 GB on NVSwitch, 8 InfiniBand NDR cards."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Link
from zerosim.hardware.machine import (
    HOST,
    HOST_SOURCE,
    NCCL_BASE_S,
    NCCL_SOURCE,
    NETWORK_HOP_S,
    NVLINK_HOP_S,
    Machine,
)

DGX_H100: Final = Machine(
    name="dgx-h100",
    device="H100 SXM5 80GB",
    ranks_per_node=8,
    peak_flops={"float16": 989e12, "bfloat16": 989e12, "float32": 67e12, "float64": 34e12},
    memory_bytes=80 * 10**9,
    memory_bandwidth=3350e9,
    efficiency=0.7,
    launch_s=5e-6,
    intra=Link("nvswitch", busbw=360e9, hop_s=NVLINK_HOP_S),
    inter=Link("infiniband", busbw=400e9, hop_s=NETWORK_HOP_S),
    host=HOST,
    base_s=NCCL_BASE_S,
    sources={
        "peak_flops": "datasheet H100 SXM, dense, without TF32",
        "memory": "datasheet H100 SXM",
        "efficiency": "assumed, below the best matmul measured: 794.5 TFLOP/s, 80 % "
        "(stas00/ml-engineering @744d01e)",
        "launch_s": "assumed (4-6 µs)",
        "intra_busbw": "derived: 12 rings x 30 GB/s (NVIDIA/nccl src/graph/search.cc @5067397); "
        "measured all-gather 350-361 GB/s (NVIDIA/nccl-tests issue 326)",
        "inter_busbw": "8 NDR cards x 50 GB/s (datasheet)",
        "latency": NCCL_SOURCE,
        "host": HOST_SOURCE,
    },
)
