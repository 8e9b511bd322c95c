"""Rates and delays are read as `tc` writes them; what could be read two ways is refused."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.errors import InputError
from zerosim.scenario import Scenario, cluster_of, load_scenario, plan_of
from zerosim.scenario.sections import ClusterSection
from zerosim_runtime.lab.run import machine_of
from zerosim_runtime.lab.shape import Shape, delay_of, format_rate, patience_s, rate_of


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200Mbit", 25e6),
        ("100mbit", 12.5e6),
        ("1Gbit", 125e6),
        ("2.5 Gbit/s", 312.5e6),
        ("25MBps", 25e6),
        ("25MB/s", 25e6),
        ("800kbit", 1e5),
        ("64000bit", 8e3),
    ],
)
def test_a_rate_is_bytes_a_second(text: str, rate: float) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize("text", ["100Mbps", "100", "fast", "-1Gbit", "1Gbit 2", "", "1e3Mbit"])
def test_a_rate_that_says_neither_bits_nor_bytes_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--inter is '.*': give bits a second, as in 200Mbit"):
        rate_of(text)


@pytest.mark.parametrize(("text", "seconds"), [("50us", 5e-5), ("1.5ms", 1.5e-3), ("0s", 0.0)])
def test_a_delay_is_seconds(text: str, seconds: float) -> None:
    assert delay_of(text) == pytest.approx(seconds)


def test_a_delay_without_a_unit_is_refused() -> None:
    with pytest.raises(InputError, match="--latency is '5': give a time, as in 50us or 1ms"):
        delay_of("5")


@pytest.mark.parametrize(
    ("rate", "text"), [(25e6, "200Mbit"), (1.25e9, "10Gbit"), (1e5, "800kbit")]
)
def test_a_rate_is_shown_as_it_was_typed(rate: float, text: str) -> None:
    assert format_rate(rate) == text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nodes": 0}, "--nodes is 0: give 1 to 64"),
        ({"ranks_per_node": 65}, "--ranks-per-node is 65: give 1 to 64"),
        ({"inter": 1.0}, "--inter is 8bit: give 1Mbit to 100Gbit"),
        ({"intra": 1e12}, "--intra is 8000Gbit: give 1Mbit to 100Gbit"),
        ({"latency_s": 2.0}, "--latency is 2 s: give 0us to 1s"),
        ({"mtu": 100}, "--mtu is 100: give 576 to 9000"),
    ],
)
def test_a_lab_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Shape(**({"nodes": 2, "ranks_per_node": 2, "inter": 25e6} | given))


def test_the_simulated_machine_has_what_is_left_of_a_link_after_headers() -> None:
    machine = machine_of(Shape(2, 3, rate_of("200Mbit"), latency_s=1e-3))
    assert (machine["world_size"], machine["ranks_per_node"]) == (6, 3)
    assert (machine["name"], machine["inter"], machine["scatter"]) == ("lab", "200Mbit", "native")
    cluster = cluster_of(Scenario("x", cluster=ClusterSection(**machine)))
    assert cluster.inter.busbw == pytest.approx(25e6 * 1448 / 1514)
    jumbo = machine_of(Shape(2, 3, rate_of("200Mbit"), mtu=9000))
    assert jumbo["inter_busbw"] == pytest.approx(25e6 * 8948 / 9014)
    assert machine["inter_hop_s"] == 1e-3
    assert "intra_busbw" not in machine


def test_slow_links_are_waited_for_and_not_taken_for_hung() -> None:
    """Eight times the lesson's largest collective at 1 Mbit/s; 20 s where the link is fast."""
    plan = plan_of(load_scenario("lesson-zero3", ["world_size=2"]))
    largest = max(op.nbytes or 0 for op in plan.ops)
    assert patience_s(plan, Shape(2, 1, rate_of("1Mbit"))) == pytest.approx(8 * largest / 125e3)
    assert patience_s(plan, Shape(2, 1, rate_of("1Gbit"))) == 20
