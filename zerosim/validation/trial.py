"""How rows are simulated: with which constants, and without which mechanisms; ready to run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from zerosim.cluster import Cluster
from zerosim.engine import EQUAL, moments
from zerosim.hardware.calibration import Calibration
from zerosim.plan import Plan
from zerosim.scenario import Scenario, cluster_of, plan_of
from zerosim.units import NS_PER_S
from zerosim.validation.mechanisms import without


@dataclass(frozen=True, slots=True)
class Trial:
    """`calibration`: constants before the shipped ones; `without`: names of mechanisms taken out."""

    calibration: Calibration | None = None
    without: tuple[str, ...] = ()

    def scenario(self, scenario: Scenario) -> Scenario:
        """The scenario without the mechanisms."""
        for mechanism in without(self.without):
            scenario = mechanism.scenario(scenario)
        return scenario

    def plan(self, scenario: Scenario) -> Plan:
        """The plan of a scenario that `scenario` gave. Raises InputError."""
        plan = plan_of(scenario)
        for mechanism in without(self.without):
            plan = mechanism.plan(plan)
        return plan

    def cluster(self, scenario: Scenario) -> Cluster:
        """The cluster of a scenario that `scenario` gave. Raises InputError."""
        cluster = cluster_of(scenario, self.calibration)
        for mechanism in without(self.without):
            cluster = mechanism.cluster(cluster)
        return cluster

    def seconds(self, scenario: Scenario, cluster: Cluster) -> float:
        """The steady step of a scenario that `scenario` gave, simulated. Raises InputError.

        With very many micro-batches two steps of fewer are simulated: from the first ones on each
        takes as long as the one before, so what more of them take is a straight line.
        """
        many = scenario.workload.micro_batches
        if many <= DEEP:
            return steady_seconds(self.plan(scenario), cluster)
        some, half = (
            steady_seconds(self.plan(_accumulating(scenario, n)), cluster)
            for n in (DEEP, DEEP // 2)
        )
        return some + (many - DEEP) * (some - half) / (DEEP - DEEP // 2)


DEEP: Final = 64
"""More micro-batches than this are not simulated one by one."""
AS_SHIPPED: Final = Trial()


def _accumulating(scenario: Scenario, micro_batches: int) -> Scenario:
    return replace(scenario, workload=replace(scenario.workload, micro_batches=micro_batches))


def steady_seconds(plan: Plan, cluster: Cluster) -> float:
    """Seconds from the end of the last but one step of a plan to the end of its last."""
    _, ends = moments(plan, cluster, EQUAL, 0)
    last = plan.ops[-1].step
    final = before = 0
    for op, end in zip(plan.ops, ends, strict=True):
        if op.step == last:
            final = max(final, end)
        else:
            before = max(before, end)
    return (final - before) / NS_PER_S
