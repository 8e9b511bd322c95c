"""The machines there are, by name, those of one generation together; each number has its source."""

from __future__ import annotations

from typing import Final

from zerosim.hardware import ampere, blackwell, hopper, over_pcie, volta
from zerosim.hardware.classroom import CLASSROOM
from zerosim.hardware.cpu_gloo import CPU_GLOO
from zerosim.hardware.lab import LAB
from zerosim.hardware.machine import Machine
from zerosim.registry import Registry

MACHINES: Final = Registry(
    "cluster",
    {
        machine.name: machine
        for machine in (
            volta.DGX_1,
            volta.DGX_1_32GB,
            volta.DGX_2,
            volta.DGX_2H,
            volta.AWS_P3,
            volta.JEAN_ZAY_V100,
            volta.V100_PAIR,
            ampere.DGX_A100,
            ampere.DGX_A100_40GB,
            ampere.AWS_P4D,
            ampere.AWS_P4DE,
            ampere.OCI_A100_40GB,
            ampere.PERLMUTTER,
            ampere.JEAN_ZAY_A100,
            ampere.MOSAICML_A100_40GB,
            ampere.MOSAICML_A100_80GB,
            ampere.IBM_VELA_A100,
            ampere.INTERNEVO_A100,
            ampere.ATORCH_A100,
            over_pcie.A100_PCIE,
            over_pcie.ETHERNET,
            hopper.DGX_H100,
            hopper.AWS_P5,
            hopper.GCP_A3_MEGA,
            hopper.GCP_A3_HIGH,
            hopper.MOSAICML_H100,
            hopper.TORCHTITAN_H100,
            hopper.IBM_VELA_H100,
            hopper.HGX_H200,
            hopper.AWS_P5EN,
            hopper.GCP_A3_ULTRA,
            blackwell.DGX_B200,
            blackwell.AWS_P6_B200,
            blackwell.GB200_NVL72,
            over_pcie.L40S,
            over_pcie.RTX_4090,
            CPU_GLOO,
            LAB,
            CLASSROOM,
        )
    },
)
GENERATIONS: Final = {
    "volta": "NVIDIA V100",
    "ampere": "NVIDIA A100",
    "hopper": "NVIDIA H100, H200",
    "blackwell": "NVIDIA B200",
    "ada": "NVIDIA L40S, RTX 4090",
    "cpu": "CPU",
    "classroom": "To learn with",
}
"""What the machines of each architecture are called together."""


__all__ = ["GENERATIONS", "MACHINES", "Machine"]
