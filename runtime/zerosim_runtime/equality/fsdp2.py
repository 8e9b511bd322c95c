"""torch's FSDP2 (`fully_shard`) beside the `fsdp2` schedule, on real ranks and on 64 fake ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, Final

from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from zerosim.numerics import Numerics
from zerosim.scenario import Scenario, numerics_of, workload_of
from zerosim.schedules.fsdp2 import Fsdp2Options
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.fsdp2_cases import CASES
from zerosim_runtime.equality.marked import batches, marked_model
from zerosim_runtime.equality.seen import Seen
from zerosim_runtime.equality.watch import Record, watching
from zerosim_runtime.model import Model
from zerosim_runtime.rank import dtype_of

__all__ = ["CASES", "NEEDS", "observe"]
NEEDS: Final = ("torch",)


def observe(case: Case, rank: int) -> list[Seen]:
    """Train the case's model under fully_shard and return what this rank was seen to do."""
    scenario, options, record = scenario_of(case), options_of(case), Record()
    mesh = mesh_of(options, case.world_size)
    # Tensors of fake ranks are fake too, unless fully_shard is to make a mesh, which must be real.
    with FakeTensorMode() if case.fake and _mesh_is_given(options) else nullcontext():
        model = wrapped(case, mesh, record)
        with watching(record):
            train(model, scenario, options, record, rank)
    return record.seen


def options_of(case: Case) -> Fsdp2Options:
    """The options of a case's schedule."""
    return Fsdp2Options(**scenario_of(case).schedule.options)


def _mesh_is_given(options: Fsdp2Options) -> bool:
    """Whether fully_shard makes no mesh of its own (it does to reshard to fewer ranks)."""
    return options.reshard_after_forward is None or isinstance(options.reshard_after_forward, bool)


def mesh_of(options: Fsdp2Options, world_size: int) -> DeviceMesh:
    """One dimension, or replicas of a shard mesh."""
    shards = options.shard_mesh_size or world_size
    if shards == world_size:
        return init_device_mesh("cpu", (world_size,), mesh_dim_names=("shard",))
    names = ("replicate", "shard")
    return init_device_mesh("cpu", (world_size // shards, shards), mesh_dim_names=names)


def wrapped(case: Case, mesh: DeviceMesh, record: Record) -> FSDPModule:
    """The model after the calls that a user would write for the options of the case."""
    scenario, options = scenario_of(case), options_of(case)
    numerics, inside = numerics_of(scenario), "outside" not in case.extra
    model = _stored(marked_model(scenario, record), numerics)
    arguments: dict[str, Any] = {
        "mesh": mesh,
        "reshard_after_forward": options.reshard_after_forward,
        "mp_policy": _policy(numerics),
    }
    if inside:
        _checkpoint(model, scenario)
    layers = list(_layers(model, scenario)) if options.wrap == "layers" else []
    blocks: list[FSDPModule] = [fully_shard(layer, **arguments) for layer in layers]
    if not inside:
        _checkpoint(model, scenario)
    root: FSDPModule = fully_shard(model, **arguments)
    if options.keep_last_layer:
        blocks[-1].set_reshard_after_forward(False)
    if options.set_separate_reduce_scatter_group:
        root.set_separate_reduce_scatter_group()
    root.set_reduce_scatter_max_input_buffers(options.set_reduce_scatter_max_input_buffers)
    _prefetch(blocks, options)
    return root


def _stored(model: Model, numerics: Numerics) -> Model:
    """The model with its parameters in the dtype in which they are stored."""
    dtype = dtype_of(numerics.storage_dtype)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def _policy(numerics: Numerics) -> MixedPrecisionPolicy:
    return MixedPrecisionPolicy(
        param_dtype=dtype_of(numerics.dtype),
        reduce_dtype=dtype_of(numerics.reduce_dtype),
    )


def _checkpoint(model: Model, scenario: Scenario) -> None:
    """Recompute each block; the root's own layers are not recomputed."""
    for i, layer in enumerate(workload_of(scenario).layers):
        if layer.recompute_flops:
            model.layers[i] = checkpoint_wrapper(model.layers[i])


def _layers(model: Model, scenario: Scenario) -> Iterator[nn.Module]:
    workload = workload_of(scenario)
    for module, layer in zip(model.layers, workload.layers, strict=True):
        if workload.units[layer.unit].name != "root":
            yield module


def _prefetch(blocks: list[FSDPModule], options: Fsdp2Options) -> None:
    ahead = options.set_modules_to_forward_prefetch
    before = options.set_modules_to_backward_prefetch
    for i, block in enumerate(blocks):
        if ahead:
            block.set_modules_to_forward_prefetch(blocks[i + 1 : i + 1 + ahead])
        if before:
            block.set_modules_to_backward_prefetch(blocks[max(0, i - before) : i][::-1])


def train(
    model: FSDPModule,
    scenario: Scenario,
    options: Fsdp2Options,
    record: Record,
    rank: int,
) -> None:
    """Every micro-batch of every step, with what the loop sets before each; there is no optimizer."""
    called: Any = model  # an FSDPModule is an nn.Module too, which its type does not say
    for batch in batches(scenario, record, rank):
        last = record.micro_batch == scenario.workload.micro_batches - 1
        model.set_requires_gradient_sync(last or options.set_requires_gradient_sync)
        model.set_requires_all_reduce(last or options.set_requires_all_reduce)
        model.set_reshard_after_backward(last or options.set_reshard_after_backward)
        called(batch).backward()
        if last:
            called.zero_grad()
