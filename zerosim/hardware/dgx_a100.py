"""DGX A100: 8 A100 80 GB on NVSwitch, 8 InfiniBand HDR cards."""

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

DGX_A100: Final = Machine(
    name="dgx-a100",
    device="A100 SXM4 80GB",
    ranks_per_node=8,
    peak_flops={"float16": 312e12, "bfloat16": 312e12, "float32": 19.5e12, "float64": 9.7e12},
    memory_bytes=80 * 10**9,
    memory_bandwidth=2039e9,
    efficiency=0.775,
    launch_s=14e-6,
    intra=Link("nvswitch", busbw=240e9, hop_s=NVLINK_HOP_S),
    inter=Link("infiniband", busbw=200e9, hop_s=NETWORK_HOP_S),
    host=HOST,
    base_s=NCCL_BASE_S,
    sources={
        "peak_flops": "datasheet A100, dense, without TF32",
        "memory": "datasheet A100 80GB",
        "efficiency": "fitted on 183 A100-PCIe GEMM shapes (MooreThreads/SimuMax @4dcaae5)",
        "launch_s": "fitted, as efficiency",
        "intra_busbw": "derived: 12 rings x 20 GB/s (NVIDIA/nccl src/graph/search.cc @5067397); "
        "measured all-reduce 234.9 GB/s at 16 GiB (stas00/ml-engineering @744d01e)",
        "inter_busbw": "8 HDR cards x 25 GB/s (datasheet)",
        "latency": NCCL_SOURCE,
        "host": HOST_SOURCE,
    },
)
