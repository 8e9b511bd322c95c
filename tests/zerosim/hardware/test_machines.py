"""Machines: sane units, a source for each number, and a published figure each reproduces."""

from __future__ import annotations

import pytest

from zerosim.collectives import transfer
from zerosim.hardware import MACHINES
from zerosim.kinds import Kind

EVERY_MACHINE = pytest.mark.parametrize("name", list(MACHINES))


@EVERY_MACHINE
def test_a_machine_is_registered_under_its_name(name: str) -> None:
    assert MACHINES[name].name == name


@EVERY_MACHINE
def test_every_number_has_a_source(name: str) -> None:
    sources = MACHINES[name].cluster(2, "bfloat16").sources
    numbers = {"peak_flops", "memory", "efficiency", "launch_s", "intra_busbw", "inter_busbw"}
    assert numbers | {"latency", "host", "fabric"} <= sources.keys()
    assert ("sms" in sources) == (MACHINES[name].device.sms > 0)
    assert all(len(text) >= len("assumed") for text in sources.values())


@EVERY_MACHINE
def test_rates_are_in_base_units(name: str) -> None:
    machine = MACHINES[name]
    assert all(1e9 <= rate <= 1e17 for rate in machine.device.peak_flops.values())
    assert 1e9 <= machine.device.memory_bandwidth <= 1e14
    assert 1e8 <= machine.inter.busbw <= 1e13
    assert 1e8 <= machine.intra.busbw <= 1e13
    assert machine.intra.hop_s < 1e-3
    assert machine.inter.hop_s < 1e-3


@EVERY_MACHINE
def test_narrower_dtypes_are_never_slower(name: str) -> None:
    rates = MACHINES[name].device.peak_flops
    assert rates["float64"] <= rates["float32"] <= rates["bfloat16"]


def test_a_cluster_computes_at_the_rate_of_its_dtype() -> None:
    assert MACHINES["dgx-h100"].cluster(8, "bfloat16").device.peak_flops == 989e12
    assert MACHINES["dgx-h100"].cluster(8, "float32").device.peak_flops == 67e12


def busbw(name: str, nbytes: int) -> float:
    """nccl-tests' bus bandwidth of an all-reduce over one node, in GB/s."""
    n = MACHINES[name].ranks_per_node
    cluster = MACHINES[name].cluster(n, "bfloat16")
    ns = transfer(Kind.ALL_REDUCE, nbytes, n, cluster).alone_ns
    return 2 * (n - 1) / n * nbytes / ns


def test_a_dgx_a100_reaches_the_measured_bus_bandwidth() -> None:
    # stas00/ml-engineering: 234.9 GB/s at 16 GiB.
    assert busbw("dgx-a100", 16 * 2**30) == pytest.approx(234.9, rel=0.03)


def test_a_dgx_2_reaches_120_gigabytes_per_second() -> None:
    assert busbw("dgx-2", 2**30) == pytest.approx(120, rel=0.01)


def test_a_dgx_h100_gathers_within_the_measured_band() -> None:
    # NVIDIA/nccl-tests issue 326: all-gather 350-361 GB/s.
    cluster = MACHINES["dgx-h100"].cluster(8, "bfloat16")
    ns = transfer(Kind.ALL_GATHER, 8 * 2**30, 8, cluster).alone_ns
    assert 350 <= 7 / 8 * 8 * 2**30 / ns <= 361
