"""What the simulator models beyond FLOPs, each of which can be taken out to see what it is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from zerosim.cluster import Cluster
from zerosim.compute import FORMULA
from zerosim.plan import Plan
from zerosim.registry import Registry
from zerosim.scenario import Scenario
from zerosim.schedules import SCHEDULES

_ENDLESS: Final = 1e18
"""Bytes a second; an exabyte a second takes no time."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One thing that is modelled; taking it out changes the scenario, the plan or the cluster."""

    says: str
    scenario: Callable[[Scenario], Scenario] = lambda scenario: scenario
    plan: Callable[[Plan], Plan] = lambda plan: plan
    cluster: Callable[[Cluster], Cluster] = lambda cluster: cluster


def _one_after_the_other(plan: Plan) -> Plan:
    ops = (replace(op, after=(*op.after, op.id - 1)) if op.id else op for op in plan.ops)
    return replace(plan, ops=tuple(ops))


_NO_PREFETCH: Final[dict[str, dict[str, Any]]] = {
    "fsdp1": {"backward_prefetch": "NO_PREFETCH", "forward_prefetch": False},
    "zero3": {"prefetch": 0},
    "deepspeed-3": {"stage3_prefetch_bucket_size": 0},
}
"""The options of each schedule that gathers ahead; fully_shard's implicit prefetch has no switch."""


def _unprefetched(scenario: Scenario) -> Scenario:
    section = scenario.schedule
    options = SCHEDULES[section.name].options()
    off = _NO_PREFETCH.get(section.name, {})
    changed = section.options | {k: v for k, v in off.items() if getattr(options, k) != v}
    kept = {k: v for k, v in changed.items() if k not in off or getattr(options, k) != off[k]}
    return replace(scenario, schedule=replace(section, options=kept))


def _ring(scenario: Scenario) -> Scenario:
    return replace(scenario, cluster=replace(scenario.cluster, collectives="ring"))


def _device(**fields: Any) -> Callable[[Cluster], Cluster]:  # noqa: ANN401 - fields of a device
    return lambda cluster: replace(cluster, device=replace(cluster.device, **fields))


def _unissued(cluster: Cluster) -> Cluster:
    return replace(cluster, host=replace(cluster.host, issue_s=0.0, collective_s=0.0))


def _alone(cluster: Cluster) -> Cluster:
    beside = replace(cluster.contention, sms=False, memory=False, tax=0.0)
    return replace(cluster, contention=beside)


MECHANISMS: Final = Registry(
    "mechanism",
    {
        "overlap": Mechanism(
            "communication runs beside computing (without: one op after the other)",
            plan=_one_after_the_other,
        ),
        "prefetch": Mechanism(
            "layers are gathered ahead (without: each when it is needed)", scenario=_unprefetched
        ),
        "protocols": Mechanism(
            "NCCL's choice of algorithm and protocol (without: one ring, one protocol)",
            scenario=_ring,
        ),
        "contention": Mechanism(
            "collectives take SMs and memory bandwidth from kernels (without: none)",
            cluster=_alone,
        ),
        "host": Mechanism(
            "the host takes time to issue each op (without: none)", cluster=_unissued
        ),
        "launch": Mechanism(
            "a kernel takes time beside its work (without: none)", cluster=_device(launch_s=0.0)
        ),
        "memory": Mechanism(
            "kernels move bytes (without: FLOPs alone)",
            cluster=_device(memory_bandwidth=_ENDLESS),
        ),
        "attention": Mechanism(
            "attention reaches a share of the peak of its own (without: as matrix products do)",
            cluster=_device(attention_efficiency=None),
        ),
        "shapes": Mechanism(
            "matrix products take what was measured of their shape (without: one share of the peak)",
            cluster=_device(shapes=FORMULA),
        ),
    },
)


def without(names: Iterable[str]) -> tuple[Mechanism, ...]:
    """The mechanisms of these names. Raises UnknownNameError."""
    return tuple(MECHANISMS[name] for name in names)
