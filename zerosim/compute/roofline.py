"""The additive roofline: launches, FLOPs at the rate of their kernels, and memory traffic."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Device
from zerosim.compute.shapes import SHAPE_TABLES
from zerosim.units import seconds_to_ns
from zerosim.workload import Matmul, Work

OPERAND_RATE: Final = 1.62
"""How fast a matrix product's operands pass, in memory bandwidths: caches serve them, and the product
hides a part. Fitted, with 14 µs a launch and 0.775 of the peak, on 183 A100-PCIe shapes (MooreThreads/SimuMax
@4dcaae5, configs/system/a100_pcie.json): mean error 3.7 %."""
FLASH: Final = {"flash": 1.0, "flash1": 0.5}
"""Rates of attention kernels, in those of FlashAttention-2: it is around 2x faster than the first version
(arXiv 2307.08691, abstract)."""
_ONE_KERNEL: Final = Work()


def compute_ns(flops: int, nbytes: int, device: Device, work: Work | None = None) -> int:
    """Whole nanoseconds of an op with `flops` and `nbytes` of memory traffic on `device`.

    t = kernels · launch + matmul FLOPs / (efficiency · peak) + operands / (1.62 · bandwidth)
    + attention FLOPs / (attention efficiency · peak) + bytes / (memory efficiency · bandwidth).
    `nbytes` is what other kernels than matrix products read and write. FLOPs that `work` says nothing
    of go at the rate of matrix products; without `work` the op is one kernel. The attention efficiency is
    FlashAttention-2's, of which the first version reaches half. A product that stands in
    the device's shape table takes what was measured, launch included. Nothing to do takes no time.
    """
    if flops == 0 and nbytes == 0:
        return 0
    work = work or _ONE_KERNEL
    measured_s, n_measured = 0.0, 0
    products = operands = 0
    for matmul in work.matmuls:
        seconds = _measured_s(matmul, work.width, device)
        if seconds is None:
            products += matmul.flops
            operands += matmul.nbytes(work.width)
        else:
            measured_s += seconds
            n_measured += matmul.count
    counted = sum(matmul.flops for matmul in work.matmuls) + work.attention_flops
    rate = device.efficiency * device.peak_flops
    attention_rate = rate
    if device.attention_efficiency is not None:
        attention_rate = FLASH[work.attention] * device.attention_efficiency * device.peak_flops
    return seconds_to_ns(
        max(0, work.kernels - n_measured) * device.launch_s
        + measured_s
        + (products + max(0, flops - counted)) / rate
        + operands / (OPERAND_RATE * device.memory_bandwidth)
        + work.attention_flops / attention_rate
        + nbytes / (device.memory_efficiency * device.memory_bandwidth)
    )


def _measured_s(matmul: Matmul, width: int, device: Device) -> float | None:
    """What a matrix product takes by the device's table, None if it does not stand there."""
    efficiency = SHAPE_TABLES[device.shapes].efficiency(matmul, width)
    return None if efficiency is None else matmul.flops / (efficiency * device.peak_flops)
