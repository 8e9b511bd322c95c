"""What a lab can be; and the machine, with what headers leave of its links, that stands for it."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.errors import InputError
from zerosim.scenario import Scenario, cluster_of, load_scenario, plan_of
from zerosim.scenario.sections import ClusterSection
from zerosim.units import read_rate
from zerosim_runtime.lab.run import machine_of
from zerosim_runtime.lab.shape import Shape, format_rate, patience_s


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
    machine = machine_of(Shape(2, 3, read_rate("200Mbit"), latency_s=1e-3))
    assert (machine["world_size"], machine["ranks_per_node"]) == (6, 3)
    assert (machine["name"], machine["inter"], machine["scatter"]) == ("lab", "200Mbit", "native")
    cluster = cluster_of(Scenario("x", cluster=ClusterSection(**machine)))
    assert cluster.inter.busbw == pytest.approx(25e6 * 1448 / 1514)
    jumbo = machine_of(Shape(2, 3, read_rate("200Mbit"), mtu=9000))
    assert jumbo["inter_busbw"] == pytest.approx(25e6 * 8948 / 9014)
    assert machine["inter_hop_s"] == 1e-3
    assert "intra_busbw" not in machine


def test_slow_links_are_waited_for_and_not_taken_for_hung() -> None:
    """Eight times the lesson's largest collective at 1 Mbit/s; 20 s where the link is fast."""
    plan = plan_of(load_scenario("lesson-zero3", ["world_size=2"]))
    largest = max(op.nbytes or 0 for op in plan.ops)
    assert patience_s(plan, Shape(2, 1, read_rate("1Mbit"))) == pytest.approx(8 * largest / 125e3)
    assert patience_s(plan, Shape(2, 1, read_rate("1Gbit"))) == 20
