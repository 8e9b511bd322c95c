"""DeepSpeed ZeRO-1, 2 and 3 as observed: its engine runs a small model under a ds_config.

Needs DeepSpeed (a virtual environment of its own: docs/schedules/deepspeed-1-2.md says how); what was observed is
kept under tests/golden/deepspeed, so that plans are compared with it where DeepSpeed is missing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch
from torch.nn import functional as F  # noqa: N812 - torch's own custom

from zerosim.scenario.sections import NumericsSection, WorkloadSection
from zerosim_runtime.equality import deepspeed3_cases, deepspeed_cases
from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.deepspeed_model import Model, Shape, batch
from zerosim_runtime.equality.deepspeed_plan import plan_of, rows_of
from zerosim_runtime.equality.recording import Replay
from zerosim_runtime.equality.seen import MARKERS, Seen
from zerosim_runtime.equality.watch import Record, watching

NEEDS: Final = ("deepspeed", "torch")
CASES: Final = (*deepspeed_cases.CASES, *deepspeed3_cases.CASES)
REPLAY: Final = Replay(
    Path(__file__).parents[3] / "tests" / "golden" / "deepspeed", plan_of, rows_of
)
STAGES: Final = {"deepspeed-1": 1, "deepspeed-2": 2, "deepspeed-3": 3}
_BY_MODULE: Final = 3
"""The stage that gathers module by module, so that modules are what is marked."""
SHORT: Final = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_LINEAR: Final = F.linear
"""torch's own; ZeRO-3 replaces it for good, and another case may want it."""
ENVIRONMENT: Final = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"}
"""What DeepSpeed's import reads: no GPU, and nothing compiled ahead."""


def observe(case: Case, rank: int) -> list[Seen]:
    """What DeepSpeed does on this rank in the first steps of a case, inside its process group."""
    os.environ.update(ENVIRONMENT, LOCAL_RANK=str(rank))
    # Its import reads the environment; and not everybody has it.
    deepspeed: Any = import_module("deepspeed")
    deepspeed.init_distributed("gloo", verbose=False)
    F.linear = _LINEAR
    workload = WorkloadSection(**case.scenario["workload"])
    shape = Shape(**case.extra.get("shape", {}))
    record = Record()
    torch.manual_seed(0)
    model = Model(workload, shape, record)
    for leaf in case.extra.get("leaves", []):
        deepspeed.utils.set_z3_leaf_modules(model, [leaf])
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=ds_config(case)
    )
    dtype = getattr(torch, _numerics(case).dtype)
    with watching(record):
        for record.step in range(1, case.scenario["run"]["steps"] + 1):
            for record.micro_batch in range(workload.micro_batches):
                engine.backward(engine(*batch(workload, shape, dtype)))
                engine.step()
    engine.destroy()
    return (
        record.seen
        if STAGES[case.scenario["schedule"]["name"]] == _BY_MODULE
        else by_layer(record.seen)
    )


def by_layer(rows: Sequence[Seen]) -> list[Seen]:
    """The rows with modules' markers (`0.norm1`) as their layer's: the first of a layer stays."""
    kept: list[Seen] = []
    running: Seen | None = None
    for row in rows:
        if row.kind not in MARKERS:
            kept.append(row)
            continue
        marker = replace(row, unit=row.unit.partition(".")[0])
        if marker != running:
            kept.append(marker)
        running = marker
    return kept


def ds_config(case: Case) -> dict[str, Any]:
    """The ds_config of a case: its schedule's options are those of `zero_optimization`."""
    workload, numerics = WorkloadSection(**case.scenario["workload"]), _numerics(case)
    options = dict(case.scenario["schedule"])
    accumulated = options.pop("grad_accum_dtype", SHORT.get(numerics.grad_dtype or ""))
    reduced = options.pop("communication_data_type", SHORT.get(numerics.reduce_dtype or ""))
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": workload.micro_batch,
        "gradient_accumulation_steps": workload.micro_batches,
        "gradient_clipping": 0.0,
        # DeepSpeed's own Adam would be compiled first.
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
        "bf16": {"enabled": numerics.dtype == "bfloat16"},
        "zero_optimization": {"stage": STAGES[options.pop("name")], **options},
    }
    if accumulated is not None:
        config["data_types"] = {"grad_accum_dtype": accumulated}
    if reduced is not None:
        config["communication_data_type"] = reduced
    return config


def _numerics(case: Case) -> NumericsSection:
    return NumericsSection(**case.scenario["numerics"])
