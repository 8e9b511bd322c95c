"""The classroom: round numbers and no latency, so that every time can be checked by hand."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Link
from zerosim.hardware.calibration import Calibration, DeviceConstants, LauncherConstants
from zerosim.hardware.devices import CLASSROOM_GPU
from zerosim.hardware.machine import Machine

_ROUND: Final = "assumed: chosen so that gathering a layer takes about as long as computing it"

CLASSROOM: Final = Machine(
    name="classroom",
    says="8 devices of round numbers, without latency, to check by hand",
    device=CLASSROOM_GPU,
    ranks_per_node=8,
    intra=Link("nvswitch", busbw=1e9, hop_s=0.0),
    inter=Link("infiniband", busbw=0.25e9, hop_s=0.0),
    launcher="classroom",
    own=Calibration(
        device={CLASSROOM_GPU.name: DeviceConstants(1.0, 0.0, _ROUND)},
        launcher={"classroom": LauncherConstants(0.0, _ROUND, kernel_s=0.0)},
    ),
    sources={"intra_busbw": _ROUND, "inter_busbw": _ROUND, "latency": _ROUND},
)
