"""FSDP1: one flat parameter a unit, gathered before it is used; torch's FullyShardedDataParallel.

Written hook by hook after torch 2.13 (torch/distributed/fsdp: _runtime_utils.py, _flat_param.py,
_exec_order_utils.py, _limiter_utils.py), so that it decides as they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import Final

from zerosim.errors import ScenarioError
from zerosim.kinds import Reuse
from zerosim.numerics import Numerics
from zerosim.partition import Partition, balance, by_unit
from zerosim.plan import Allocation, Axis, Plan, PlanWriter, uneven
from zerosim.schedules import layers
from zerosim.schedules.flat import Flat, FlatOps, Mesh
from zerosim.schedules.fsdp1_hooks import Handle, Hooks
from zerosim.schedules.knobs import knob
from zerosim.workload import Unit, Workload

_STRATEGIES: Final = (
    "FULL_SHARD",
    "SHARD_GRAD_OP",
    "NO_SHARD",
    "HYBRID_SHARD",
    "_HYBRID_SHARD_ZERO2",
)
_HYBRID: Final = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
_RESHARD_AFTER_FORWARD: Final = ("FULL_SHARD", "HYBRID_SHARD")
_PREFETCHES: Final = ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH")
_WRAPS: Final = ("layers", "root")
_NODE: Final = 8
"""GPUs of a node: the ranks that torch shards over in the HYBRID strategies unless told otherwise."""
_ALIGNMENT: Final = 16
"""Bytes to which `use_orig_params` aligns each parameter within a flat one."""

_IN_FLIGHT: Final = 2
"""Freed units that may still be in use when the host gathers another (`_FreeEventQueue`)."""


@dataclass(frozen=True, slots=True)
class Fsdp1Options:
    """Arguments of FullyShardedDataParallel; dtypes are those of the numerics (MixedPrecision)."""

    sharding_strategy: str = knob(
        "FULL_SHARD",
        "FULL_SHARD: all is sharded, and gathered again in the backward; SHARD_GRAD_OP: kept from "
        "the forward on; NO_SHARD: replicas; HYBRID_SHARD, _HYBRID_SHARD_ZERO2: the first two "
        "within groups, replicated between them",
        choices=_STRATEGIES,
    )
    backward_prefetch: str = knob(
        "BACKWARD_PRE",
        "when the backward gathers the next unit: before it computes this one, after it, or not "
        "ahead at all (NO_PREFETCH, torch's None)",
        choices=_PREFETCHES,
        none="NO_PREFETCH",
    )
    forward_prefetch: bool = knob(
        False,
        "the forward gathers the next unit before it computes this one, from the second on",
    )
    limit_all_gathers: bool = knob(
        True,
        "before a gather the host waits until at most two freed units are still in use",
    )
    use_orig_params: bool = knob(
        False,
        "parameters keep their names, and each starts at a multiple of 16 bytes",
    )
    no_sync: bool = knob(
        False,
        "all micro-batches but the last run under no_sync(): whole gradients add up, unreduced",
    )
    wrap: str = knob(
        "layers",
        "what is wrapped: each layer and then the model, or the model alone (root), which is torch's "
        "auto_wrap_policy None",
        choices=_WRAPS,
    )
    shard_mesh_size: int | None = knob(
        None,
        "ranks of a group in the HYBRID strategies (device_mesh); none: a node's, 8 if that divides",
        "ranks",
        tries=(2, 4),
    )

    def __post_init__(self) -> None:
        """Refuse what torch refuses, and the one group that it would leave unreduced."""
        _known("sharding_strategy", self.sharding_strategy, _STRATEGIES)
        _known("backward_prefetch", self.backward_prefetch, _PREFETCHES)
        _known("wrap", self.wrap, _WRAPS)
        size = self.shard_mesh_size
        if size is None:
            return
        if self.sharding_strategy not in _HYBRID:
            raise ScenarioError(
                f"schedule.shard_mesh_size is {size} with {self.sharding_strategy}: torch shards "
                f"within groups only with {' or '.join(_HYBRID)}"
            )
        if size < 2:  # noqa: PLR2004 - one rank shards nothing
            raise ScenarioError(
                f"schedule.shard_mesh_size is {size}: torch turns a group of one into NO_SHARD and "
                "leaves its gradients unreduced, so give at least 2"
            )


def _known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ScenarioError(f"schedule.{name} is '{value}': torch knows {', '.join(known)}")


def fsdp1(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Fsdp1Options, steps: int = 1
) -> Plan:
    """FSDP1's steps. A stored dtype that is not the computing one is torch's MixedPrecision."""
    if numerics.grad_dtype != numerics.dtype:
        raise ScenarioError(
            f"numerics.grad_dtype is {numerics.grad_dtype} with dtype {numerics.dtype}: FSDP1 makes "
            "gradients in the parameters' dtype, set reduce_dtype for the reduction"
        )
    size = _group_size(options, n_ranks)
    sharded = _sharded(options, n_ranks)
    replicated = sharded and options.sharding_strategy in _HYBRID
    mesh = Mesh(sharded, replicated, _divides(n_ranks))
    partition, flats = _laid_out(workload, n_ranks, numerics, options)
    hooks = _hooks(workload, FlatOps(PlanWriter(), numerics, mesh), flats, options)
    stored = sum(flat.shard for flat in flats)
    loads = [stored] * n_ranks
    if options.use_orig_params:
        # The optimizer sees the parameters themselves, so padding has no states.
        every = list(balance(partition).loads) * (n_ranks // size)
        loads = every if sharded else [workload.n_params] * n_ranks
    steady_from = _write(hooks, workload, options, loads, steps)
    ops = [op for op in hooks.ops.writer.ops if op.step <= steps]
    return Plan(
        "fsdp1",
        n_ranks,
        layers.steps_end(ops),
        _axes(mesh, size, n_ranks),
        (
            Allocation("parameters", "parameters", stored * numerics.storage_bytes),
            uneven("optimizer", "optimizer", [n * numerics.optimizer_bytes for n in loads]),
        ),
        steady_from,
        reuse=Reuse.RECORDED,
    )


def _group_size(options: Fsdp1Options, n_ranks: int) -> int:
    """Over how many ranks a parameter is sharded."""
    if options.sharding_strategy not in _HYBRID:
        return n_ranks
    size = options.shard_mesh_size
    if size is None:
        # A node's ranks: the most, up to 8, that divide the world; all of them if none do.
        return next((n for n in range(_NODE, 1, -1) if n_ranks % n == 0), n_ranks)
    if n_ranks % size:
        raise ScenarioError(
            f"schedule.shard_mesh_size is {size} of {n_ranks} ranks: give a size that divides them"
        )
    return size


def _divides(n_ranks: int) -> tuple[bool, bool]:
    """Whether gradients are divided before and after: by 2, 4, 8 … near the root, and by the rest."""
    before = 1
    while n_ranks % before == 0 and n_ranks / before > before:
        before *= 2
    return before > 1, n_ranks > before


def fsdp1_padded(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Fsdp1Options
) -> int:
    """Elements of one copy of the parameters, alignment and padding included."""
    _, flats = _laid_out(workload, n_ranks, numerics, options)
    return sum(flat.padded if _sharded(options, n_ranks) else flat.numel for flat in flats)


def _sharded(options: Fsdp1Options, n_ranks: int) -> bool:
    return options.sharding_strategy != "NO_SHARD" and _group_size(options, n_ranks) > 1


def _laid_out(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Fsdp1Options
) -> tuple[Partition, list[Flat]]:
    """How each wrapped unit is cut over the ranks that share it, and its flat parameter."""
    aligned = _ALIGNMENT // numerics.param_bytes if options.use_orig_params else 1
    units = workload.units
    if options.wrap == "root":
        units = (Unit("root", tuple(p for unit in units for p in unit.parameters)),)
    partition = by_unit(units, _group_size(options, n_ranks), aligned)
    sharded = _sharded(options, n_ranks)
    return partition, _flats(units, partition, sharded=sharded, aligned=options.use_orig_params)


def _flats(
    units: Sequence[Unit], partition: Partition, *, sharded: bool, aligned: bool
) -> list[Flat]:
    """The flat parameter of each unit. Without alignment its padding is no part of it."""
    flats = []
    for i, (unit, buffer) in enumerate(zip(units, partition.buffers, strict=True)):
        numel = buffer.elements if aligned else unit.numel
        shard = buffer.elements // partition.n_ranks if sharded else numel
        flats.append(Flat(i, unit.name, numel, buffer.elements, shard))
    return flats


def _root(workload: Workload) -> int | None:
    """The unit of the outermost module: called root, or used by the first layer and the last one."""
    first, last = workload.layers[0].unit, workload.layers[-1].unit
    named = (i for i, unit in enumerate(workload.units) if unit.name == "root")
    return next(named, first if first == last and len(workload.layers) > 1 else None)


def _hooks(workload: Workload, ops: FlatOps, flats: list[Flat], options: Fsdp1Options) -> Hooks:
    if options.wrap == "root":
        handles = dict.fromkeys(range(len(workload.units)), Handle(flats[0]))
        root: int | None = 0
    else:
        handles = {flat.unit: Handle(flat) for flat in flats if flat.numel}
        root = _root(workload)
    return Hooks(
        ops,
        workload,
        handles,
        None if root is None else handles.get(root),
        reshard=options.sharding_strategy in _RESHARD_AFTER_FORWARD,
        backward_prefetch=options.backward_prefetch,
        forward_prefetch=options.forward_prefetch,
        limit=_IN_FLIGHT if options.limit_all_gathers else None,
    )


def _write(
    hooks: Hooks, workload: Workload, options: Fsdp1Options, loads: list[int], steps: int
) -> int:
    """Write steps until they are enough and all alike; returns the first that all later are like."""
    writer, before = hooks.ops.writer, None
    for step in count(1):
        start = (len(hooks.freed), hooks.recorded and options.forward_prefetch)
        if start == before and step > steps:
            break
        writer.step, before = step, start
        for writer.micro_batch in range(workload.micro_batches):
            last = writer.micro_batch == workload.micro_batches - 1
            hooks.iterate(sync=last or not options.no_sync)
        hooks.ops.update(loads)
    names = [[op.name for op in ops] for _, ops in groupby(writer.ops, key=lambda op: op.step)]
    return 1 + next(i for i, step in enumerate(names) if all(s == step for s in names[i:]))


def _axes(mesh: Mesh, size: int, n_ranks: int) -> tuple[Axis, ...]:
    if not mesh.replicated:
        return (Axis("world", n_ranks),)
    return Axis("shard", size), Axis("replicate", n_ranks // size, size)
