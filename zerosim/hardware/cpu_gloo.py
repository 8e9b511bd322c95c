"""CPU and Gloo: ranks as processes of one small machine, talking over its loopback."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Link
from zerosim.hardware.calibration import Calibration, DeviceConstants, LauncherConstants
from zerosim.hardware.devices import CPU_CORES
from zerosim.hardware.machine import Machine

CPU_GLOO: Final = Machine(
    name="cpu-gloo",
    says="ranks as processes of one small machine, over its loopback",
    device=CPU_CORES,
    ranks_per_node=64,
    intra=Link("loopback", busbw=0.5e9, hop_s=100e-6),
    inter=Link("ethernet", busbw=1.25e9, hop_s=50e-6),
    launcher="Gloo",
    base_s=100e-6,
    backend="gloo",
    computes=True,
    own=Calibration(
        device={CPU_CORES.name: DeviceConstants(0.5, 50e-6, "assumed")},
        launcher={
            "Gloo": LauncherConstants(
                60e-6, "measured 40-190 µs a collective under tracing", kernel_s=20e-6
            )
        },
    ),
    sources={
        "intra_busbw": "measured 0.3-0.7 GB/s, all-reduce of 2 ranks on a loaded 2-core machine",
        "inter_busbw": "assumed, 10 Gbit Ethernet",
        "latency": "measured 150-250 µs for 1 KiB, 2 ranks, on a loaded machine",
        "wire": "measured: reduce-scatter moves an all-reduce (torch 2.13, Gloo)",
    },
)
