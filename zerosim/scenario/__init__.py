"""Scenarios: read one, change it, build what it names, run it."""

from zerosim.scenario.build import (
    convention_of,
    facts_of,
    moments_of,
    numerics_of,
    plan_of,
    run,
    variation_of,
    workload_of,
)
from zerosim.scenario.machinery import cluster_of, machine_of
from zerosim.scenario.presets import PRESETS
from zerosim.scenario.scenario import Scenario, load_scenario

__all__ = [
    "PRESETS",
    "Scenario",
    "cluster_of",
    "convention_of",
    "facts_of",
    "load_scenario",
    "machine_of",
    "moments_of",
    "numerics_of",
    "plan_of",
    "run",
    "variation_of",
    "workload_of",
]
