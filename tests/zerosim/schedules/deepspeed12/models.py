"""Plans of small models under DeepSpeed ZeRO-1 and ZeRO-2, for tests that count by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zerosim.models import uniform
from zerosim.numerics import Numerics
from zerosim.plan import Op, Plan
from zerosim.schedules import SCHEDULES
from zerosim.workload import Parameter, Unit, Workload

P = 512 * 512
BFLOAT16 = Numerics()
FLOAT32 = Numerics("float32", "float32")


def layers_of(*numels: int, micro_batches: int = 1) -> Workload:
    """A layer for each number, with one matrix of so many elements."""
    base = uniform(layers=len(numels), hidden=1, tokens=1, micro_batches=micro_batches)
    units = (Unit(str(i), (Parameter("weight", (1, n)),)) for i, n in enumerate(numels))
    return replace(base, units=tuple(units))


def plan(
    stage: int,
    workload: Workload,
    n_ranks: int = 2,
    numerics: Numerics = FLOAT32,
    steps: int = 1,
    **options: Any,
) -> Plan:
    schedule = SCHEDULES[f"deepspeed-{stage}"]
    written: Plan = schedule.write(workload, n_ranks, numerics, schedule.options(**options), steps)
    return written


def collectives(of: Plan) -> list[Op]:
    """The collectives of tensors, not of single numbers."""
    return [op for op in of.ops if op.communicator is not None and (op.elements or 0) > 1]


def sizes(of: Plan) -> str:
    """Collectives as `AR 2P`, by name without label and by elements in units of P."""
    words = {"all_reduce": "AR", "reduce": "RED", "all_gather": "AG"}
    return ", ".join(f"{words[op.kind]} {(op.elements or 0) / P:g}P" for op in collectives(of))
