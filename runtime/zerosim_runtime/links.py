"""Which machine of the simulator real ranks run on, going by what moves their bytes."""

from __future__ import annotations

from dataclasses import replace

from zerosim.collectives import GLOOS
from zerosim.errors import ScenarioError
from zerosim.scenario import Scenario, machine_of
from zerosim.scenario.sections import ClusterSection
from zerosim_runtime.pace import check_scatter, parse_backend


def on_links(scenario: Scenario, backend: str, scatter: str | None) -> Scenario:
    """The scenario with the machine that `backend` and `scatter` make of this one.

    Paced links are those of the machine `lab`, and so is what they latently take. Raises
    UnknownNameError, InputError for words that cannot be read, ScenarioError for NCCL that should scatter.
    """
    name, pace = parse_backend(backend)
    if scatter is not None:
        check_scatter(scatter)
        if name == "nccl":
            raise ScenarioError(f"scatter is '{scatter}', but NCCL has its own: leave it out")
    if pace is not None:
        cluster = _lab(scenario.cluster)
        latency = pace.latency_s or None
        cluster = replace(cluster, inter_busbw=pace.rate_bytes_s, base_s=latency)
        scenario = replace(scenario, cluster=cluster)
    elif scatter is not None:
        scenario = on_gloo(scenario)
    if scatter is None:
        return scenario
    return replace(scenario, cluster=replace(scenario.cluster, scatter=scatter))


def on_gloo(scenario: Scenario) -> Scenario:
    """The scenario on a machine whose ranks talk by Gloo: its own if it is one, else this CPU."""
    if machine_of(scenario).backend in GLOOS:
        return scenario
    cluster = ClusterSection(name="cpu-gloo", world_size=scenario.cluster.world_size)
    return replace(scenario, cluster=cluster)


def _lab(section: ClusterSection) -> ClusterSection:
    if section.name == "lab":
        return section
    return ClusterSection(name="lab", world_size=section.world_size)
