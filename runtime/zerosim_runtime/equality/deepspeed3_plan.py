"""The plan of a DeepSpeed ZeRO-3 case, and what was seen in it with the trace's checks in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zerosim.kinds import Kind
from zerosim.plan import Plan
from zerosim.scenario import numerics_of, workload_of
from zerosim.schedules.deepspeed3 import DeepSpeed3Options, deepspeed_3
from zerosim.workload import Unit, Workload
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.seen import Seen

_LAYERS: Final = {"Block": slice(1, -1), "Head": slice(-1, None)}
"""Which layers are of the class that a case declares a leaf."""


def plan_of(case: Case) -> Plan:
    """The plan that should come to the same: `extra` of the case says what its scenario cannot."""
    scenario, shape = scenario_of(case), case.extra.get("shape", {})
    workload = workload_of(scenario)
    options = DeepSpeed3Options(**scenario.schedule.options)
    leaves = [la for name in case.extra.get("leaves", ()) for la in workload.layers[_LAYERS[name]]]
    options = replace(options, leaf_module=",".join(layer.name for layer in leaves))
    if shape.get("checkpointing") == "reentrant":
        options = replace(options, use_reentrant=True)
    return deepspeed_3(
        workload if shape.get("bias", True) else _without_biases(workload),
        case.world_size,
        numerics_of(scenario),
        options,
        scenario.run.steps,
    )


def _without_biases(workload: Workload) -> Workload:
    """A uniform model of weights alone."""
    units = tuple(Unit(unit.name, unit.parameters[:1]) for unit in workload.units)
    return replace(workload, units=units)


def in_place(rows: Sequence[Seen]) -> list[Seen]:
    """The rows, with broadcasts that open a micro-batch counted to the one before.

    The ranks compare what they recorded as the second forward begins; a plan does it, at the same
    place, as the last thing of the recorded micro-batch.
    """
    places = sorted({(row.step, row.micro_batch) for row in rows})
    before = dict(zip(places[1:], places, strict=False))
    moved: list[Seen] = []
    for row in rows:
        if row.kind == Kind.BROADCAST and (row.step, row.micro_batch) in before:
            step, micro_batch = before[row.step, row.micro_batch]
            moved.append(replace(row, step=step, micro_batch=micro_batch))
        else:
            moved.append(row)
    return moved
