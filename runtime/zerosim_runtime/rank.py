"""One rank, from its scenario to the end of its last step."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist

from zerosim.errors import RuntimeFailedError
from zerosim.plan import Allocation, Plan
from zerosim.scenario import Scenario, cluster_of, numerics_of, plan_of, workload_of
from zerosim_runtime.assignment import Assignment, digest
from zerosim_runtime.averaging import hold_buffer
from zerosim_runtime.clock import clock_identity, measure_offsets, one_clock
from zerosim_runtime.collectives import communicator
from zerosim_runtime.execute import Execution, attach, train_step
from zerosim_runtime.layout import layout_of
from zerosim_runtime.memory import Memory
from zerosim_runtime.model import Batch, Model, batch_of, model_of
from zerosim_runtime.optimizer import Settings, make_optimizer
from zerosim_runtime.pace import Pace
from zerosim_runtime.progress import Rank, settle_all
from zerosim_runtime.recorder import Recorder, noting, open_recorder
from zerosim_runtime.ring import Ring
from zerosim_runtime.weights import allocation_of, make_weights

_DEFAULTS: Final = Settings()


@dataclass(frozen=True, slots=True)
class Trainer:
    """A rank that is ready to train its scenario."""

    scenario: Scenario
    execution: Execution
    model: Model
    device: torch.device
    dtype: torch.dtype


def open_rank(
    directory: Path,
    backend: str,
    *,
    poison: bool = False,
    rss: bool = False,
    ring: Ring | None = None,
) -> Recorder:
    """Start this rank's record, before anything can go wrong; `ring` is one that is open already."""
    device = device_of(backend)
    memory = Memory(device, poison, resident=0 if rss else None)
    return open_recorder(directory, dist.get_rank(), memory, _header(backend, device), ring)


def agree(assignment: Assignment, scenario: Scenario, backend: str) -> int:
    """Refuse a world of ranks that were asked to do different things, or would talk by different backends.

    Raises RuntimeFailedError.

    Returns when rank 0 came here, in Unix nanoseconds: the same on all ranks, and later after a restart.
    """
    n_ranks, wanted = dist.get_world_size(), scenario.cluster.world_size
    if n_ranks != wanted:
        raise RuntimeFailedError(
            f"{n_ranks} ranks came together where {wanted} were asked for: "
            "give every node the same --nnodes and --nproc"
        )
    told: list[tuple[str, str, int]] = [("", "", 0)] * n_ranks
    dist.all_gather_object(told, (digest(assignment), backend, time.time_ns()))
    others = [rank for rank, (other, *_) in enumerate(told) if other != told[0][0]]
    if others:
        raise RuntimeFailedError(
            f"rank {others[0]} was asked to do something else than rank 0: "
            "give every node the same scenario and options"
        )
    apart = [rank for rank, (_, other, _) in enumerate(told) if other != told[0][1]]
    if apart:
        raise RuntimeFailedError(
            f"rank {apart[0]} would talk by {told[apart[0]][1]}, rank 0 by {told[0][1]}, "
            "as their GPUs allow: give every node --backend gloo"
        )
    return told[0][2]


def make_trainer(
    scenario: Scenario,
    recorder: Recorder,
    *,
    backend: str,
    timeout_s: float,
    settings: Settings = _DEFAULTS,
    pace: Pace | None = None,
) -> Trainer:
    """Build what the scenario names on this rank; all ranks must do so together.

    `pace`: the link that all communicators share.
    """
    memory = recorder.memory
    scenario = replace(scenario, run=replace(scenario.run, ledger=True))
    plan, workload, numerics = plan_of(scenario), workload_of(scenario), numerics_of(scenario)
    check_plan(plan)
    device, dtype = memory.device, dtype_of(numerics.dtype)
    layout = layout_of(plan, workload)
    weights = make_weights(
        layout, workload, rank=dist.get_rank(), dtype=dtype, device=device, seed=scenario.run.seed
    )
    optimizer = make_optimizer(weights, numerics, settings)
    _hold(memory, plan, (allocation_of(weights), optimizer.allocation))
    scatter = scenario.cluster.scatter or "native"
    if pace is not None:
        pace.ranks_per_node = cluster_of(scenario).ranks_per_node
    channels = {op.communicator for op in plan.ops if op.communicator is not None}
    rank = Rank(
        n_ranks=plan.world_size,
        layout=layout,
        weights=weights,
        optimizer=optimizer,
        memory=memory,
        recorder=recorder,
        communicators={
            name: communicator(backend, timeout_s, scatter=scatter, pace=pace)
            for name in sorted(channels)
        },
        grad_dtype=dtype_of(numerics.grad_dtype),
    )
    for name, channel in rank.communicators.items():
        channel.watchers.append(noting(recorder.ring, name))
    hold_buffer(rank, plan, dtype_of(numerics.reduce_dtype))
    execution = Execution(plan, workload, rank)
    model = model_of(workload, scenario.workload, weights.parameters)
    attach(execution, model)
    return Trainer(scenario, execution, model, device, dtype)


def train(trainer: Trainer) -> tuple[float, ...]:
    """Run all steps of the scenario; returns this rank's loss of each. Raises RuntimeFailedError."""
    shared = one_clock()
    recorder = trainer.execution.rank.recorder
    note_offsets(recorder, shared=shared)
    losses: list[float] = []
    for step in range(1, trainer.scenario.run.steps + 1):
        losses.append(
            train_step(trainer.execution, trainer.model, _batches(trainer, step), step).item()
        )
        recorder.write(step=step, loss=losses[-1])
        recorder.flush()
    settle_all(trainer.execution.rank)
    note_offsets(recorder, shared=shared)
    recorder.close("finished")
    return tuple(losses)


def stop(trainer: Trainer) -> None:
    """End the threads of a rank that has trained."""
    for channel in trainer.execution.rank.communicators.values():
        channel.close()


def check_plan(plan: Plan) -> None:
    """Refuse what real ranks cannot do yet. Raises RuntimeFailedError."""
    for axis in plan.axes:
        if (axis.size, axis.stride) != (plan.world_size, 1):
            raise RuntimeFailedError(
                f"plan '{plan.name}' has a group '{axis.name}' of {axis.size} of "
                f"{plan.world_size} ranks: real ranks run plans of one group"
            )


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of that name. Raises RuntimeFailedError if torch has none."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise RuntimeFailedError(
            f"torch has no dtype '{name}': give float64, float32, bfloat16 or float16"
        )
    return dtype


def device_of(backend: str) -> torch.device:
    """This rank's device: a GPU of its own for nccl, else the CPU."""
    if backend != "nccl":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def _header(backend: str, device: torch.device) -> dict[str, Any]:
    return {
        "rank": dist.get_rank(),
        "backend": backend,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu(),
        "clock": clock_identity(),
        "perf_ns": time.perf_counter_ns(),
        "unix_ns": time.time_ns(),
        "host": platform.node(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "gpus": torch.cuda.device_count(),
        "pid": os.getpid(),
        "local_rank": int(os.environ.get("LOCAL_RANK", dist.get_rank())),
    }


def _cpu() -> str:
    return f"CPU ({os.cpu_count()} cores, {platform.machine()})"


def _hold(memory: Memory, plan: Plan, held: Iterable[Allocation]) -> None:
    """Book what a rank holds throughout. Raises RuntimeFailedError if the plan says otherwise."""
    planned = {allocation.key: allocation.nbytes for allocation in plan.persistent}
    for allocation in held:
        if planned.get(allocation.key) != allocation.nbytes:
            raise RuntimeFailedError(
                f"'{allocation.key}' take {allocation.nbytes} B, the plan says "
                f"{planned.get(allocation.key)} B: the model and its workload do not match"
            )
        memory.book(allocation.key, allocation.kind, allocation.nbytes)


def _batches(trainer: Trainer, step: int) -> tuple[Batch, ...]:
    return tuple(
        batch_of(
            trainer.scenario.workload,
            trainer.dtype,
            trainer.device,
            seed=trainer.scenario.run.seed,
            rank=dist.get_rank(),
            step=step,
            micro_batch=micro_batch,
        )
        for micro_batch in range(trainer.scenario.workload.micro_batches)
    )


def note_offsets(recorder: Recorder, *, shared: bool) -> None:
    """Write down how far the ranks' clocks are apart, unless they share one; all must ask together."""
    for offset in () if shared else measure_offsets():
        recorder.write(offset=[offset.rank, offset.at_ns, offset.offset_ns, offset.error_ns])
