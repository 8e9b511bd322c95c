"""Machines: sane units, a source for each number, and a published figure each reproduces."""

from __future__ import annotations

import math

import pytest

from zerosim.collectives import transfer
from zerosim.hardware import GENERATIONS, MACHINES
from zerosim.hardware.published import Published, busbw
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
    assert ("topology" in sources) == (MACHINES[name].topology is not None)
    assert all(len(text) >= len("assumed") for text in sources.values())


@EVERY_MACHINE
def test_rates_are_in_base_units(name: str) -> None:
    machine = MACHINES[name]
    assert all(1e9 <= rate <= 1e17 for rate in machine.device.peak_flops.values())
    assert 1e9 <= machine.device.memory_bandwidth <= 1e14
    # The lab has 200 Mbit/s unless another rate is chosen.
    assert 2e7 <= machine.inter.busbw <= 1e13
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


FIGURES = [(name, figure) for name in MACHINES for figure in MACHINES[name].published]
MET = [pytest.param(*f, id=f"{f[0]}-{f[1].kind}-{f[1].n_ranks}") for f in FIGURES if not f[1].off]
MISSED = [pytest.param(*f, id=f"{f[0]}-{f[1].kind}-{f[1].n_ranks}") for f in FIGURES if f[1].off]


def error(name: str, figure: Published) -> float:
    """How far the bus bandwidth of the model is from a published one, as ln(model / published)."""
    cluster = MACHINES[name].cluster(figure.n_ranks, "bfloat16")
    return abs(math.log(busbw(figure, cluster) / figure.busbw))


@pytest.mark.parametrize(("name", "figure"), MET)
def test_a_machine_reproduces_what_was_published_of_it(name: str, figure: Published) -> None:
    assert error(name, figure) <= figure.within <= 0.2
    assert figure.source


@pytest.mark.parametrize(("name", "figure"), MISSED)
def test_a_figure_that_is_said_to_be_missed_is_missed(name: str, figure: Published) -> None:
    assert error(name, figure) > 0.2


def test_a_dgx_2_reaches_120_gigabytes_per_second() -> None:
    cluster = MACHINES["dgx-2"].cluster(16, "bfloat16")
    ns = transfer(Kind.ALL_REDUCE, 2**30, 16, cluster).alone_ns
    assert 2 * 15 / 16 * 2**30 / ns == pytest.approx(120, rel=0.01)


def test_blackwells_published_figures_are_never_fitted() -> None:
    for name in ("dgx-b200", "aws-p6-b200", "gb200-nvl72"):
        assert {figure.split for figure in MACHINES[name].published} == {"test"}


def test_every_generation_is_together_and_has_a_name() -> None:
    seen = [MACHINES[name].device.architecture for name in MACHINES]
    assert list(dict.fromkeys(seen)) == list(GENERATIONS)
    assert seen == sorted(seen, key=list(GENERATIONS).index)


@EVERY_MACHINE
def test_rings_together_are_what_a_rank_reaches_inside_a_node(name: str) -> None:
    machine = MACHINES[name]
    if machine.topology is not None:
        together = machine.topology.channels * machine.topology.channel_busbw
        assert together == pytest.approx(machine.intra.busbw)
