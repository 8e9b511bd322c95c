"""DeepSpeed ZeRO-3: parameters are sharded one by one and gathered by module, as its hooks ask."""

from __future__ import annotations

from typing import Final

from zerosim.kinds import Reuse
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, Axis, Plan, PlanWriter
from zerosim.schedules import layers
from zerosim.schedules.deepspeed3.coordinator import Coordinator
from zerosim.schedules.deepspeed3.gathers import Gathers
from zerosim.schedules.deepspeed3.gradients import Gradients
from zerosim.schedules.deepspeed3.modules import Tensor, model
from zerosim.schedules.deepspeed3.options import DeepSpeed3Options
from zerosim.schedules.deepspeed3.update import Update
from zerosim.schedules.deepspeed3.walk import Walk
from zerosim.schedules.deepspeed_dtypes import check_numerics
from zerosim.workload import Workload

__all__ = ["DeepSpeed3Options", "deepspeed_3"]

_STAGE: Final = 3
_STEADY_FROM: Final = 2
"""Step 1 records the trace."""


def deepspeed_3(
    workload: Workload,
    n_ranks: int,
    numerics: Numerics,
    options: DeepSpeed3Options,
    steps: int = 1,
) -> Plan:
    """ZeRO-3 as DeepSpeed's engine runs it (runtime/zero/stage3.py): a recorded step, then steady ones.

    Raises ScenarioError, UnknownNameError for what the engine would not run.
    """
    check_numerics(_STAGE, numerics)
    tree = model(
        workload,
        n_ranks,
        leaves=options.leaves,
        granularity=options.stage3_module_granularity_threshold,
        reentrant=options.use_reentrant,
    )
    writer, tensors = PlanWriter(), tree.tensors
    coordinator = Coordinator(
        tuple(tensor.numel for tensor in tensors),
        _persistent(tensors, options),
        options.prefetch,
        options.stage3_max_live_parameters,
        options.stage3_max_reuse_distance,
    )
    gathers = Gathers(writer, numerics, options, tensors, n_ranks)
    gradients = Gradients(writer, numerics, options, tensors, n_ranks)
    walk = Walk(writer, numerics, options, tree, coordinator, gathers, gradients)
    update = Update(writer, numerics, options, tensors, n_ranks, walk)
    update.compare_traces()
    for writer.step in range(1, steps + 1):
        for writer.micro_batch in range(workload.micro_batches):
            walk.micro_batch()
            if writer.micro_batch + 1 == workload.micro_batches:
                update.step()
            if (writer.step, writer.micro_batch) == (1, 0):
                update.compare_traces()
    # What is still gathered is dropped with the last op, so that memory ends as it began.
    gathers.drop(coordinator.partition_all(), len(writer.ops) - 1)
    held = (
        Allocation("parameters", "parameters", update.shard * numerics.storage_bytes),
        Allocation("optimizer", "optimizer", update.shard * numerics.optimizer_bytes),
        *gradients.held(update.shard),
    )
    ops = layers.steps_end(writer.ops)
    return Plan(
        "deepspeed-3",
        n_ranks,
        ops,
        (Axis("world", n_ranks),),
        held,
        _STEADY_FROM,
        reuse=Reuse.RECORDED,
    )


def _persistent(tensors: tuple[Tensor, ...], options: DeepSpeed3Options) -> frozenset[int]:
    """Parameters that stay gathered: small ones, as long as all of them stay within the limit."""
    chosen: list[int] = []
    total = 0
    for p, tensor in enumerate(tensors):
        fits = tensor.numel + total <= options.stage3_model_persistence_threshold
        if fits and tensor.numel <= options.stage3_param_persistence_threshold:
            chosen.append(p)
            total += tensor.numel
    return frozenset(chosen)
