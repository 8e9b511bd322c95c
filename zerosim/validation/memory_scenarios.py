"""From a row of measured memory to the scenario that it ran."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from zerosim.errors import InputError
from zerosim.scenario import Scenario
from zerosim.validation.architectures import dimensions
from zerosim.validation.cells import Cells, Default
from zerosim.validation.memory_sources import Corrected
from zerosim.validation.places import PLACES
from zerosim.validation.rows import StepRow, step_row
from zerosim.validation.steps import simulated

_TORCH: Final = ("ddp", "fsdp1", "fsdp2", "zero-redundancy")
"""Schedules whose engines leave the optimizer to torch.optim, which is foreach on GPUs."""
_TITAN: Final = (
    ("rs_dtype", "fp32", "torchtitan's mixed_precision_reduce"),
    ("act_ckpt_note", "per-op", "selective_ac_option of torchtitan's llama configurations"),
)
_GPU: Final = "A100-SXM-80GB"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a row ran, and the blanks that were filled for it."""

    scenario: Scenario
    step: StepRow
    defaults: tuple[Default, ...]


def ran(row: Corrected) -> Ran:
    """The scenario of a row. Raises MeasurementError where no honest one exists."""
    cells, defaults = _completed(row.cells)
    step = step_row(cells)
    if not any(place.takes(step) for place in PLACES):
        step = replace(step, gpu=_GPU)
        defaults.append(Default("gpu", _GPU, "no machine has its GPU; memory hardly depends on it"))
    _refuse_other_axes(step)
    found = simulated(step)
    scenario = found.scenario
    foreach = scenario.schedule.name in _TORCH
    if foreach and "foreach" not in row.numerics:
        defaults.append(Default("foreach", "true", "what torch.optim does on GPUs"))
    numerics = {"foreach": foreach, **row.numerics}
    # What one micro-batch adds to another is there from the second on.
    alike = min(2, scenario.workload.micro_batches)
    scenario = replace(scenario, workload=replace(scenario.workload, micro_batches=alike))
    compiled = (cells.text("compile") or "no").lower() == "yes"
    sections = {
        "schedule": row.schedule,
        "numerics": numerics,
        "workload": {"compile": compiled, **row.workload},
    }
    words = [
        f"{s}.{name}={value}" for s, given in sections.items() for name, value in given.items()
    ]
    try:
        scenario = scenario.with_set(words)
    except InputError as error:
        raise cells.refused(str(error)) from None
    return Ran(scenario, step, (*found.defaults, *defaults))


def _completed(cells: Cells) -> tuple[Cells, list[Default]]:
    """The row with the columns of a measured step; a time, which memory does not need, stands in."""
    found, counted = dimensions(cells)
    defaults = list(counted)
    filled = {**cells.filled, **found, "step_time_s": "1", "simulatable": "yes"}
    if "sharding" in filled:
        filled["sharding_raw"] = filled["sharding"]
    if "grad_accum" not in filled:
        filled["grad_accum"] = "1"
        defaults.append(Default("grad_accum", "1", "not stated"))
    if "torchtitan" in filled.get("framework", ""):
        for column, value, why in _TITAN:
            if column not in filled:
                filled[column] = value
                defaults.append(Default(column, value, why))
    if filled.get("precision", "").startswith("fp8"):
        filled["precision"] = "bf16"
        defaults.append(
            Default("precision", "bf16", "only operands of products are float8, kept is bfloat16")
        )
    return replace(cells, filled=filled), defaults


def _refuse_other_axes(step: StepRow) -> None:
    sharded = (step.raw.text("sharding_raw") or "").lower()
    if step.zero_stage and step.shard_group < step.n_gpus and "hybrid" not in sharded:
        raise step.refused(
            f"{step.n_gpus} GPUs shard over {step.shard_group}, which is tensor, pipeline or context "
            "parallelism: only data parallelism is simulated; leave the row out"
        )
