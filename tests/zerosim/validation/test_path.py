"""Critical paths: priced at the same constants they are the step, at others never longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from zerosim.cluster import Contention
from zerosim.scenario import Scenario, cluster_of, plan_of
from zerosim.validation.path import length_s, prices, walker
from zerosim.validation.rows import StepRow
from zerosim.validation.steps import simulated
from zerosim.validation.trial import steady_seconds

BOUNDARY = 1e-3
"""A step may begin before the last op of the one before it has ended (DeepSpeed's own streams)."""
FRAMEWORKS = {
    "Composer": "3",
    "torchtitan FSDP2": "3",
    "YaFSDP": "3",
    "DeepSpeed ZeRO-3": "3",
    "DeepSpeed ZeRO-2": "2",
    "llm.c": "1",
    "Megatron-LM": "0",
    "PyTorch DDP": "0",
}


@pytest.fixture(params=FRAMEWORKS)
def scenario(request: pytest.FixtureRequest, row: Callable[..., StepRow]) -> Scenario:
    stage = FRAMEWORKS[request.param]
    given = {"layers": "4", "params": "1020223488", "zero_stage": stage}
    return simulated(row(framework=request.param, shard_group="", **given)).scenario


def test_a_path_at_its_own_prices_is_the_step(scenario: Scenario) -> None:
    # Beside collectives kernels take longer than their price; a fit adds that by itself.
    plan, cluster = plan_of(scenario), replace(cluster_of(scenario), contention=Contention())
    one = walker(plan, cluster)
    walk = one.walk(cluster)
    assert walk.seconds == steady_seconds(plan, cluster)
    assert length_s(walk, *prices(one.distinct, cluster)) == pytest.approx(
        walk.seconds, rel=BOUNDARY
    )


def test_a_path_at_other_prices_is_never_longer_than_the_step(scenario: Scenario) -> None:
    plan, cluster = plan_of(scenario), cluster_of(scenario)
    one = walker(plan, cluster)
    walk = one.walk(cluster)
    slow = replace(cluster, device=replace(cluster.device, efficiency=0.1, launch_s=50e-6))
    host = replace(cluster, host=replace(cluster.host, issue_s=500e-6))
    for other in (slow, host):
        priced = length_s(walk, *prices(one.distinct, other))
        assert priced <= steady_seconds(plan, other) * (1 + BOUNDARY)
