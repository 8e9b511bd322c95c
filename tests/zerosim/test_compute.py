"""The additive roofline, held against a measured A100 GEMM."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.compute import compute_ns
from zerosim.hardware import MACHINES

A100 = MACHINES["dgx-a100"].cluster(1, "bfloat16").device


def test_a_measured_gemm_takes_2231_microseconds() -> None:
    # Check case H7: m 4096, k 5120, n 12288 on an A100-PCIe (1.62 of 1.94 TB/s reached).
    device = replace(A100, memory_bandwidth=1.62 * 1.94e12)
    flops = 2 * 4096 * 5120 * 12288
    nbytes = 2 * (4096 * 5120 + 5120 * 12288 + 4096 * 12288)
    assert compute_ns(flops, nbytes, device) / 1000 == pytest.approx(2230.9, abs=0.1)


def test_nothing_to_do_takes_no_time() -> None:
    assert compute_ns(0, 0, A100) == 0


def test_the_least_work_takes_a_launch() -> None:
    assert compute_ns(1, 0, A100) == 14_001


def test_an_adam_step_of_a_shard_of_7_5b_on_2_tb_per_second_takes_1_8_ms() -> None:
    device = replace(A100, memory_bandwidth=2.0e12, launch_s=0.0)
    # Check case H5: 30 bytes a parameter, 64 ranks.
    assert compute_ns(0, 30 * 7_500_000_000 // 64, device) / 1e6 == pytest.approx(1.758, abs=0.001)
