"""The machines there are, by name; each file gives a source for each number."""

from __future__ import annotations

from typing import Final

from zerosim.hardware.classroom import CLASSROOM
from zerosim.hardware.cpu_gloo import CPU_GLOO
from zerosim.hardware.dgx_2 import DGX_2
from zerosim.hardware.dgx_a100 import DGX_A100
from zerosim.hardware.dgx_h100 import DGX_H100
from zerosim.hardware.machine import Machine
from zerosim.registry import Registry

MACHINES: Final = Registry(
    "cluster", {m.name: m for m in (DGX_2, DGX_A100, DGX_H100, CPU_GLOO, CLASSROOM)}
)

__all__ = ["MACHINES", "Machine"]
