"""Rates that papers quote, from the datasheets here: shares of a V100's peak, links in and between nodes."""

from __future__ import annotations

import pytest

from zerosim.hardware import MACHINES


def share_of_v100(flops: float) -> float:
    """Share of a V100's peak, float16 on tensor cores."""
    return flops / MACHINES["dgx-2"].cluster(400, "float16").device.peak_flops


def test_5_teraflops_are_4_percent_of_a_v100() -> None:
    # Check case F1; arXiv 1910.02054 says "less than 5 %".
    assert share_of_v100(5e12) == pytest.approx(0.04)


def test_38_teraflops_on_400_v100_are_15_petaflops_and_30_percent() -> None:
    # Check case F2; arXiv 1910.02054: "15 Petaflops", "over 30 %".
    assert round(400 * 38e12) == 15_200_000_000_000_000
    assert share_of_v100(38e12) == pytest.approx(0.304)


def test_a_dgx_2_sends_100_gigabytes_a_second_that_are_6_25_a_gpu() -> None:
    # Check cases F3, F4: arXiv 1910.02054 §10.1 says 800 Gbps; a ring inside the node reaches 120.
    machine = MACHINES["dgx-2"]
    assert machine.inter.busbw == 100e9 == 800e9 / 8
    assert machine.inter.busbw / machine.ranks_per_node == 6.25e9
    assert machine.intra.busbw == 120e9
    assert (300 / 12.5, 150 / 12.5) == (24, 12)  # as quoted; like for like, one way each


def test_turing_nlg_reached_33_percent_of_a_v100() -> None:
    # Check case F5.
    assert share_of_v100(41.4e12) == pytest.approx(0.331, abs=0.0005)
