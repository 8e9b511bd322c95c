"""The torch model of a case, whose layers say in a record where their forward and backward begin."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from zerosim.scenario import Scenario, numerics_of, workload_of
from zerosim_runtime.equality.watch import Record, mark
from zerosim_runtime.model import Around, Batch, Compute, Model, batch_of, initial, model_of
from zerosim_runtime.rank import dtype_of


def marked_model(scenario: Scenario, record: Record, *, meta: bool = False) -> Model:
    """The scenario's model in its own dtype; with `meta` its parameters have no memory yet."""
    workload, dtype = workload_of(scenario), dtype_of(numerics_of(scenario).dtype)

    def around(layer: str) -> Around:
        def compute_marked(compute: Compute, x: torch.Tensor) -> torch.Tensor:
            record.begun(layer)
            return mark(record, layer, compute(x))

        return compute_marked

    parameters = [
        [
            nn.Parameter(
                torch.empty(p.shape, dtype=dtype, device="meta")
                if meta
                else initial(p, unit, index, scenario.run.seed).to(dtype).view(p.shape)
            )
            for index, p in enumerate(of_unit.parameters)
        ]
        for unit, of_unit in enumerate(workload.units)
    ]
    return model_of(workload, scenario.workload, parameters, around)


def batches(scenario: Scenario, record: Record, rank: int) -> Iterator[Batch]:
    """Every micro-batch of every step of `rank`; the record is told which one it is."""
    dtype = dtype_of(numerics_of(scenario).dtype)
    for record.step in range(1, scenario.run.steps + 1):
        for record.micro_batch in range(scenario.workload.micro_batches):
            yield batch_of(
                scenario.workload,
                dtype,
                torch.device("cpu"),
                seed=scenario.run.seed,
                rank=rank,
                step=record.step,
                micro_batch=record.micro_batch,
            )
