"""CPU and Gloo: ranks as processes of one small machine, talking over its loopback."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Host, Link
from zerosim.hardware.machine import Machine

CPU_GLOO: Final = Machine(
    name="cpu-gloo",
    device="2 CPU cores",
    ranks_per_node=64,
    peak_flops={"float32": 0.08e12, "float64": 0.04e12, "bfloat16": 0.08e12, "float16": 0.08e12},
    memory_bytes=24 * 2**30,
    memory_bandwidth=10e9,
    efficiency=0.5,
    launch_s=50e-6,
    intra=Link("loopback", busbw=0.5e9, hop_s=100e-6),
    inter=Link("ethernet", busbw=1.25e9, hop_s=50e-6),
    host=Host(issue_s=20e-6, collective_s=60e-6, computes=True),
    base_s=100e-6,
    backend="gloo",
    sources={
        "peak_flops": "assumed, 0.05-0.1 TFLOP/s",
        "memory": "assumed",
        "efficiency": "assumed",
        "launch_s": "assumed",
        "intra_busbw": "measured 0.3-0.7 GB/s, all-reduce of 2 ranks on a loaded 2-core machine",
        "inter_busbw": "assumed, 10 Gbit Ethernet",
        "latency": "measured 150-250 µs for 1 KiB, 2 ranks, on a loaded machine",
        "host": "measured 40-190 µs a collective under tracing",
        "wire": "measured: reduce-scatter moves an all-reduce (torch 2.13, Gloo)",
    },
)
