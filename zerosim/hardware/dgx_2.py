"""DGX-2: 16 V100 32 GB on NVSwitch, 8 InfiniBand EDR cards."""

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

DGX_2: Final = Machine(
    name="dgx-2",
    device="V100 SXM3 32GB",
    ranks_per_node=16,
    peak_flops={"float16": 125e12, "bfloat16": 125e12, "float32": 15.7e12, "float64": 7.8e12},
    memory_bytes=32 * 10**9,
    memory_bandwidth=900e9,
    efficiency=0.6,
    launch_s=5e-6,
    intra=Link("nvswitch", busbw=120e9, hop_s=NVLINK_HOP_S),
    inter=Link("infiniband", busbw=100e9, hop_s=NETWORK_HOP_S),
    host=HOST,
    base_s=NCCL_BASE_S,
    sources={
        "peak_flops": "datasheet V100 (2 PFLOPS / 16); bfloat16 does not exist there, float16's rate is used",
        "memory": "datasheet V100",
        "efficiency": "assumed",
        "launch_s": "assumed (4-6 µs)",
        "intra_busbw": "derived: 6 rings x 20 GB/s (NVIDIA/nccl src/graph/search.cc @5067397)",
        "inter_busbw": "8 EDR cards x 12.5 GB/s (arXiv 1910.02054 §10.1: 800 Gbps)",
        "latency": NCCL_SOURCE,
        "host": HOST_SOURCE,
    },
)
