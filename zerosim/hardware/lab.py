"""The lab: ranks of one small machine in nodes of their own, joined by links of a rate one chooses."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Link
from zerosim.hardware.calibration import (
    Calibration,
    DeviceConstants,
    FabricConstants,
    LauncherConstants,
)
from zerosim.hardware.cpu_gloo import CPU_GLOO
from zerosim.hardware.devices import CPU_CORES
from zerosim.hardware.machine import Machine

FABRIC: Final = "lab link"
LAB: Final = Machine(
    name="lab",
    says="ranks of one small machine as nodes of their own, between them links of a chosen rate",
    device=CPU_CORES,
    ranks_per_node=1,
    intra=CPU_GLOO.intra,
    inter=Link("veth", busbw=25e6, hop_s=0.0),
    fabric=FABRIC,
    launcher="Gloo",
    backend="gloo-all-to-all",
    computes=True,
    own=Calibration(
        device={CPU_CORES.name: DeviceConstants(0.5, 50e-6, "assumed")},
        fabric={
            FABRIC: FabricConstants(
                net_latency_s=100e-6,
                net_base_s=100e-6,
                share=1448 / 1514,
                source="share: of 1514 bytes on the wire 1448 are TCP's payload; latencies as cpu-gloo",
            )
        },
        launcher={
            "Gloo": LauncherConstants(
                60e-6, "measured 40-190 µs a collective under tracing", kernel_s=20e-6
            )
        },
    ),
    sources={
        "intra_busbw": "as cpu-gloo: its loopback",
        "inter_busbw": "chosen: 200 Mbit/s, as a token bucket or a pace sets it",
        "latency": "as cpu-gloo: measured 150-250 µs for 1 KiB, 2 ranks, on a loaded machine",
        "wire": "measured: reduce-scatter by all-to-all moves (n-1)/n of the tensor (torch 2.13, Gloo)",
    },
)
