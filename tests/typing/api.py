"""The public API as a user types it: checked by mypy, run by test_api.py."""

from __future__ import annotations

from typing import assert_type

from zerosim.analysis.summary import summarize
from zerosim.cluster import Cluster
from zerosim.engine import simulate
from zerosim.plan import Plan
from zerosim.scenario import Scenario, cluster_of, load_scenario, plan_of, run
from zerosim.trace import Trace, expand


def use() -> Trace:
    """Load, plan, simulate, summarise."""
    scenario = load_scenario("lesson-zero3", ["keep_last=false"])
    assert_type(scenario, Scenario)
    plan = assert_type(plan_of(scenario), Plan)
    cluster = assert_type(cluster_of(scenario), Cluster)
    trace = assert_type(simulate(plan, cluster), Trace)
    assert_type(run(scenario), Trace)
    summarize(trace)
    return expand(trace, (0, 1))
