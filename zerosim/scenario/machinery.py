"""From the cluster section of a scenario to the cluster: a machine, with what the scenario changes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from zerosim.cluster import Cluster, Contention, Link
from zerosim.collectives import COLLECTIVES, GLOOS, LATENCIES, SCATTERS
from zerosim.errors import ScenarioError
from zerosim.hardware import MACHINES, Machine
from zerosim.hardware.calibration import Calibration, calibration_from, merged
from zerosim.hardware.machine_file import machine_from
from zerosim.scenario.scenario import Scenario
from zerosim.scenario.sections import ClusterSection
from zerosim.units import dtype_bytes, read_rate

T = TypeVar("T")
MAX_RANKS: Final = 2**20
"""Ten times the largest machines; folding keeps an array over ranks."""


def machine_of(scenario: Scenario) -> Machine:
    """The machine of a scenario: its own, or one that zerosim knows. Raises UnknownNameError."""
    c = scenario.cluster
    return MACHINES[c.name] if c.machine is None else machine_from(c.machine, "cluster.machine")


def cluster_of(scenario: Scenario, given: Calibration | None = None) -> Cluster:
    """The cluster of a scenario: the machine, with what the scenario changes about it.

    `given` constants go before the scenario's, and those before the ones that the machine has.
    """
    c = scenario.cluster
    if not 1 <= c.world_size <= MAX_RANKS:
        raise ScenarioError(f"cluster.world_size is {c.world_size}: give 1 to {MAX_RANKS}")
    dtype_bytes(scenario.numerics.dtype)
    if c.calibration is not None:
        given = merged(calibration_from(c.calibration), given or Calibration())
    machine = machine_of(scenario)
    base = machine.cluster(c.world_size, scenario.numerics.dtype, given)
    rate = None if c.inter is None else machine.reached(read_rate(c.inter), given)
    model = chosen(c.collectives, base.collectives)
    _refuse_unread(c, model)
    return replace(
        base,
        collectives=model,
        ranks_per_node=chosen(c.ranks_per_node, base.ranks_per_node),
        device=replace(
            base.device,
            peak_flops=chosen(c.peak_flops, base.device.peak_flops),
            efficiency=chosen(c.efficiency, base.device.efficiency),
            memory_bytes=chosen(c.memory_bytes, base.device.memory_bytes),
            memory_bandwidth=chosen(c.memory_bandwidth, base.device.memory_bandwidth),
            launch_s=chosen(c.launch_s, base.device.launch_s),
            shapes=chosen(c.shapes, base.device.shapes),
        ),
        intra=_link(base.intra, c.intra_busbw, c.intra_hop_s),
        inter=_link(base.inter, c.inter_busbw if rate is None else rate, c.inter_hop_s),
        host=replace(
            base.host,
            issue_s=chosen(c.issue_s, base.host.issue_s),
            collective_s=chosen(c.collective_issue_s, base.host.collective_s),
        ),
        base_s=chosen(c.base_s, base.base_s),
        contention=replace(_contention(c, base), hosts=_kept(c, base, machine, given)),
        backend=_backend(c, base),
    )


def _backend(c: ClusterSection, base: Cluster) -> str:
    """What moves bytes: Gloo may reduce-scatter in two ways."""
    if c.scatter is None:
        return base.backend
    if base.backend not in GLOOS:
        raise ScenarioError(
            f"cluster.scatter is {c.scatter}, but '{base.name}' has no Gloo: leave it out, or take "
            "cluster lab or cpu-gloo"
        )
    return SCATTERS[c.scatter]


def _contention(c: ClusterSection, base: Cluster) -> Contention:
    """What the scenario says of contention; a tax stands for what is taken from kernels."""
    default = base.contention
    if c.overlap_tax:
        default = replace(default, sms=False, memory=False)
    elif c.sm_contention or c.memory_contention:
        default = replace(default, tax=0.0)
    if c.sm_contention and not base.device.sms:
        raise ScenarioError(
            f"cluster.sm_contention is true, but nobody knows how many SMs '{base.name}' has: "
            "take another machine, or set cluster.overlap_tax"
        )
    return Contention(
        sms=chosen(c.sm_contention, default.sms),
        memory=chosen(c.memory_contention, default.memory),
        links=chosen(c.link_sharing, default.links),
        communicators=chosen(c.serial_communicators, default.communicators),
        tax=chosen(c.overlap_tax, default.tax),
    )


def _kept(c: ClusterSection, base: Cluster, machine: Machine, given: Calibration | None) -> float:
    """What transfers keep while hosts compute; one whose rate is said outright has just that rate."""
    if c.inter_busbw is not None:
        return 1.0
    return base.contention.hosts if c.inter is None else machine.kept(read_rate(c.inter), given)


def _refuse_unread(section: ClusterSection, model: str) -> None:
    """A latency that the model of collectives has of its own would change nothing."""
    for name in LATENCIES:
        given = getattr(section, name)
        if given is not None and name not in COLLECTIVES[model].latencies:
            raise ScenarioError(
                f"cluster.{name} is {given}, but collectives '{model}' have latencies of their own: "
                "leave it out, or set cluster.collectives=ring"
            )


def _link(base: Link, busbw: float | None, hop_s: float | None) -> Link:
    return replace(base, busbw=chosen(busbw, base.busbw), hop_s=chosen(hop_s, base.hop_s))


def chosen(given: T | None, default: T) -> T:
    """What the scenario says, or else the default."""
    return default if given is None else given
