"""Shared links: max-min fair speeds, closed forms, and every byte moved once."""

from __future__ import annotations

from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from zerosim.engine.fabric import Demand, Fabric, fair_speeds


def test_two_flows_on_one_link_run_at_half_speed() -> None:
    assert fair_speeds({0: (("a", 1.0),), 1: (("a", 1.0),)}) == {0: 0.5, 1: 0.5}


def test_two_flows_on_two_links_run_at_full_speed() -> None:
    assert fair_speeds({0: (("a", 1.0),), 1: (("b", 1.0),)}) == {0: 1.0, 1: 1.0}


def test_a_flow_that_needs_a_quarter_of_the_link_leaves_the_rest() -> None:
    # Rising together, the link is full at 1 / (1 + 1/4) of their speeds.
    assert fair_speeds({0: (("a", 1.0),), 1: (("a", 0.25),)}) == {0: 0.8, 1: 0.8}


def test_three_flows_are_max_min_fair() -> None:
    # Link a is full at 1/3 with flows 0, 1, 2; flow 3 shares b with flow 2 and takes what is left.
    demands: dict[int, Demand] = {
        0: (("a", 1.0),),
        1: (("a", 1.0),),
        2: (("a", 1.0), ("b", 1.0)),
        3: (("b", 1.0),),
    }
    speeds = fair_speeds(demands)
    assert speeds[0] == speeds[1] == speeds[2] == pytest.approx(1 / 3)
    assert speeds[3] == pytest.approx(2 / 3)


LINK_SHARES = st.dictionaries(
    st.sampled_from("abc"), st.sampled_from([0.1, 0.25, 0.5, 1.0]), min_size=1
)


@given(st.lists(LINK_SHARES, min_size=1, max_size=6))
def test_speeds_fill_no_link_over_its_capacity_and_each_flow_has_its_bottleneck(
    shares: list[dict[str, float]],
) -> None:
    speed = fair_speeds({i: tuple(demand.items()) for i, demand in enumerate(shares)})
    used = {
        link: sum(demand.get(link, 0.0) * speed[i] for i, demand in enumerate(shares))
        for link in "abc"
    }
    assert all(total <= 1 + 1e-9 for total in used.values())
    for i, demand in enumerate(shares):
        bottlenecks = [
            link
            for link in demand
            if used[link] > 1 - 1e-9
            and all(speed[j] <= speed[i] + 1e-9 for j, d in enumerate(shares) if link in d)
        ]
        assert speed[i] == 1.0 or bottlenecks  # the definition of max-min fairness


def ends_of(flows: list[tuple[int, int]]) -> list[int]:
    """When flows of (start, ns alone) on one link end."""
    env = simpy.Environment(initial_time=0)
    fabric = Fabric(env)
    ends = [0] * len(flows)

    def flow(i: int, start: int, wire_ns: int) -> Any:
        yield env.timeout(start)
        yield fabric.transfer(wire_ns, (("a", 1.0),))
        ends[i] = int(env.now)

    for i, (start, wire_ns) in enumerate(flows):
        env.process(flow(i, start, wire_ns))
    env.run()
    return ends


def test_two_overlapping_flows_end_where_the_closed_form_says() -> None:
    # 0-50 alone, 50-150 both at half speed (flow 0 ends), 150-200 flow 1 alone.
    assert ends_of([(0, 100), (50, 100)]) == [150, 200]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 50)), min_size=1, max_size=8))
def test_a_shared_link_moves_every_byte_once(flows: list[tuple[int, int]]) -> None:
    end = 0
    for start, wire_ns in sorted(flows):  # a link that never idles while there is work
        end = max(end, start) + wire_ns
    assert end <= max(ends_of(flows)) <= end + 2 * len(flows)
