"""The plan of a DeepSpeed case, and the rows that were seen in it as the plan counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zerosim.plan import Plan
from zerosim.scenario import numerics_of, workload_of
from zerosim.schedules import SCHEDULES
from zerosim.workload import Unit, Workload
from zerosim_runtime.equality import deepspeed3_plan
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.seen import Seen


def plan_of(case: Case) -> Plan:
    """The plan that should come to the same: `extra` of the case says what its scenario cannot."""
    scenario = scenario_of(case)
    if scenario.schedule.name == "deepspeed-3":
        return deepspeed3_plan.plan_of(case)
    schedule = SCHEDULES[scenario.schedule.name]
    biased = case.extra.get("shape", {}).get("bias", True)
    workload = workload_of(scenario)
    return schedule.write(
        workload if biased else _without_biases(workload),
        case.world_size,
        numerics_of(scenario),
        schedule.options(**scenario.schedule.options),
        scenario.run.steps,
    )


def rows_of(case: Case, rows: Sequence[Seen]) -> list[Seen]:
    """The rows of one rank; ZeRO-3's checks of its trace count to the step that they check."""
    stage3 = case.scenario["schedule"]["name"] == "deepspeed-3"
    return deepspeed3_plan.in_place(rows) if stage3 else list(rows)


def _without_biases(workload: Workload) -> Workload:
    units = tuple(
        Unit(unit.name, tuple(p for p in unit.parameters if not p.name.endswith("bias")))
        for unit in workload.units
    )
    return replace(workload, units=units)
