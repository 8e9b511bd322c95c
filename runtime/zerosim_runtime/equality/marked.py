"""The torch model of a case, whose layers say in a record where their forward and backward begin."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from zerosim.errors import RuntimeFailedError
from zerosim.scenario import Scenario, numerics_of, workload_of
from zerosim.workload import Layer
from zerosim_runtime.equality.watch import Record, mark
from zerosim_runtime.model import Around, Batch, Compute, Model, batch_of, initial, model_of
from zerosim_runtime.rank import dtype_of


def marked_model(scenario: Scenario, record: Record, *, meta: bool = False) -> Model:
    """The scenario's model in its own dtype; with `meta` its parameters have no memory yet.

    Under full checkpointing a layer is one `torch.utils.checkpoint`. Raises RuntimeFailedError for
    selective checkpointing, which would need the attention apart.
    """
    if scenario.workload.checkpointing == "selective":
        raise RuntimeFailedError(
            "checkpointing=selective has no torch model here: give none or full"
        )
    workload, dtype = workload_of(scenario), dtype_of(numerics_of(scenario).dtype)

    def around(layer: Layer) -> Around:
        def marked(compute: Compute, x: torch.Tensor) -> torch.Tensor:
            record.begun(layer.name)
            return mark(record, layer.name, compute(x))

        def marked_twice(compute: Compute, x: torch.Tensor) -> torch.Tensor:
            done: torch.Tensor = checkpoint(marked, compute, x, use_reentrant=False)
            return done

        return marked_twice if layer.recompute_flops else marked

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
