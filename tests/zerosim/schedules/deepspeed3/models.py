"""The model of the measured runs of DeepSpeed ZeRO-3, its plans, and what tests read off them."""

from __future__ import annotations

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.schedules.deepspeed3 import DeepSpeed3Options, deepspeed_3
from zerosim.workload import Layer, Parameter, Unit, Workload

P = 512 * 512
"""Elements of a layer in the measured runs (y = x @ W, W of 512 by 512)."""


def model(
    n_layers: int = 3, *, bias: bool = False, recompute: bool = False, micro_batches: int = 1
) -> Workload:
    parameters = (Parameter("weight", (512, 512)), *([Parameter("bias", (512,))] if bias else []))
    return Workload(
        "measured",
        tuple(Unit(str(i), parameters) for i in range(n_layers)),
        tuple(
            Layer(str(i), i, 4 * P, 8 * P, 1024, recompute_flops=4 * P if recompute else 0)
            for i in range(n_layers)
        ),
        tokens=2,
        micro_batches=micro_batches,
    )


def plan(workload: Workload | None = None, /, *, steps: int = 3, **knobs: object) -> Plan:
    """Without persistent parameters unless they are asked for."""
    threshold = {"stage3_param_persistence_threshold": 0}
    options = DeepSpeed3Options(**(threshold | knobs))  # type: ignore[arg-type] # knobs of any type
    return deepspeed_3(workload or model(), 2, Numerics(), options, steps)


def order(made: Plan, step: int) -> str:
    """Gathers, layers and reductions of one step; the checks of a few numbers are left out."""
    checks = ("BCtrace", "ARnorm", "OPT")
    return " ".join(word for word in made.order_of(step).split() if word not in checks)


def sizes(made: Plan, kind: Kind, step: int) -> list[int | None]:
    return [op.elements for op in made.ops if op.kind is kind and op.step == step]


def on_demand(**more: int) -> dict[str, int]:
    return {"stage3_prefetch_bucket_size": 0, "stage3_max_reuse_distance": 1} | more
