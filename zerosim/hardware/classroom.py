"""The classroom: round numbers and no latency, so that every time can be checked by hand."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Host, Link
from zerosim.hardware.machine import Machine

CLASSROOM: Final = Machine(
    name="classroom",
    device="classroom GPU",
    ranks_per_node=8,
    peak_flops={"float32": 50e9, "float64": 50e9, "bfloat16": 50e9, "float16": 50e9},
    memory_bytes=10**9,
    memory_bandwidth=100e9,
    efficiency=1.0,
    launch_s=0.0,
    intra=Link("nvswitch", busbw=1e9, hop_s=0.0),
    inter=Link("infiniband", busbw=0.25e9, hop_s=0.0),
    host=Host(issue_s=0.0, collective_s=0.0),
    base_s=0.0,
    sources={
        "all": "assumed: chosen so that gathering a layer takes about as long as computing it"
    },
)
