"""FSDP2 (torch 2.13 `fully_shard`): parameters cut by rows; gathered, freed and reduced by hooks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind, Reuse
from zerosim.numerics import Numerics
from zerosim.partition import chunk, chunk_owned
from zerosim.plan import Allocation, Plan, PlanWriter, spread, uneven
from zerosim.schedules import layers
from zerosim.schedules.fsdp2 import gradients, hooks
from zerosim.schedules.fsdp2.groups import Calls, wrapping
from zerosim.schedules.fsdp2.state import Mesh, MicroBatch, State, taken
from zerosim.schedules.knobs import knob
from zerosim.schedules.norm import clipped
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Fsdp2Options:
    """Arguments of `fully_shard` and of the setters of its modules, under torch's names."""

    reshard_after_forward: int | bool | None = knob(
        None,
        "free parameters after the forward and gather them again: true, false, or a number of ranks "
        "to reshard to; none is true but false for the root; given to every fully_shard call",
        unit="ranks",
        tries=(True, False, 1, 2),
    )
    keep_last_layer: bool = knob(
        False,
        "the last wrapped layer, needed first in the backward, has set_reshard_after_forward(False)",
        alias="keep_last",
    )
    wrap: str = knob(
        "layers",
        "what fully_shard is called on: each layer and then the model, or the model alone (root)",
        choices=("layers", "root"),
        hides=True,
    )
    set_modules_to_forward_prefetch: int = knob(
        0,
        "layers ahead that each layer's pre-forward gathers; 0: implicit, the host runs ahead",
        unit="layers",
        alias="forward_prefetch",
        tries=(1, 2),
    )
    set_modules_to_backward_prefetch: int = knob(
        0,
        "layers ahead that each layer's pre-backward gathers; 0: the one before it in the forward",
        unit="layers",
        alias="backward_prefetch",
        tries=(1, 2),
    )
    set_requires_gradient_sync: bool = knob(
        True,
        "in micro-batches before the last: reduce gradients (false keeps them unsharded)",
        alias="requires_gradient_sync",
    )
    set_requires_all_reduce: bool = knob(
        True,
        "in micro-batches before the last: all-reduce what was reduce-scattered (HSDP)",
        alias="requires_all_reduce",
    )
    set_reshard_after_backward: bool = knob(
        True,
        "in micro-batches before the last: free parameters after the backward",
        alias="reshard_after_backward",
    )
    shard_mesh_size: int | None = knob(
        None,
        "ranks that share a copy of the parameters (HSDP: the second dimension of the mesh); none: all",
        unit="ranks",
        alias="data_parallel_shard_degree",
        tries=(1, 2, 4),
    )
    set_separate_reduce_scatter_group: bool = knob(
        False,
        "a communicator of its own for reduce-scatters, which then overlap with all-gathers",
        alias="separate_reduce_scatter_group",
    )
    set_reduce_scatter_max_input_buffers: int = knob(
        1,
        "inputs of reduce-scatters in flight; at the limit the next one's copy-in waits for the oldest",
        unit="buffers",
        alias="reduce_scatter_max_input_buffers",
        tries=(2, 3),
    )

    def __post_init__(self) -> None:
        """Refuse what the setters refuse."""
        for name in ("set_modules_to_forward_prefetch", "set_modules_to_backward_prefetch"):
            if getattr(self, name) < 0:
                raise ScenarioError(
                    f"schedule.{name} is {getattr(self, name)}: give 0 or more layers"
                )
            if getattr(self, name) and self.wrap == "root":
                raise ScenarioError(
                    f"schedule.{name} is {getattr(self, name)} with wrap 'root': "
                    "only wrapped layers are prefetched, give wrap 'layers'"
                )
        if self.set_reduce_scatter_max_input_buffers < 1:
            raise ScenarioError(
                "schedule.set_reduce_scatter_max_input_buffers is "
                f"{self.set_reduce_scatter_max_input_buffers}: max_input_buffers must be positive"
            )
        if self.wrap not in ("layers", "root"):
            raise ScenarioError(f"schedule.wrap is '{self.wrap}': give layers or root")
        if self.keep_last_layer and self.wrap == "root":
            raise ScenarioError(
                "schedule.keep_last_layer is true with wrap 'root': "
                "only a wrapped layer is kept, give wrap 'layers'"
            )


def fsdp2(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Fsdp2Options, steps: int = 1
) -> Plan:
    """The step of `fully_shard`: what its hooks do, in the order in which they fire."""
    if numerics.grad_dtype != numerics.dtype:
        raise ScenarioError(
            f"numerics.grad_dtype is {numerics.grad_dtype} with dtype {numerics.dtype}: FSDP2 makes "
            "gradients in the parameters' dtype, set reduce_dtype for the reduction"
        )
    state = _started(workload, n_ranks, numerics, options)
    for state.writer.step in range(1, steps + 1):
        for state.writer.micro_batch in range(workload.micro_batches):
            last = state.writer.micro_batch == workload.micro_batches - 1
            _forward(state, options.set_modules_to_forward_prefetch)
            now = MicroBatch(
                reduce=last or options.set_requires_gradient_sync,
                all_reduce=last or options.set_requires_all_reduce,
                reshard=last or options.set_reshard_after_backward,
            )
            _backward(state, options.set_modules_to_backward_prefetch, now)
        _update(state)
    return _finished(state)


def fsdp2_padded(workload: Workload, n_ranks: int, _: Numerics, options: Fsdp2Options) -> int:
    """Elements of one copy of the parameters, the padding of rows included."""
    shards = options.shard_mesh_size or n_ranks
    return shards * sum(chunk(p, shards) for unit in workload.units for p in unit.parameters)


def _started(workload: Workload, n_ranks: int, numerics: Numerics, options: Fsdp2Options) -> State:
    shards = options.shard_mesh_size or n_ranks
    if shards < 1 or n_ranks % shards:
        raise ScenarioError(
            f"schedule.shard_mesh_size is {shards} of {n_ranks} ranks: it must divide them"
        )
    given = options.reshard_after_forward
    to = _reshard_to(True if given is None else given, shards)
    calls = Calls(
        shards=shards,
        root_to=_reshard_to(False if given is None else given, shards),
        inner_to=to,
        last_to=0 if options.keep_last_layer else to,
        wrap_layers=options.wrap == "layers",
    )
    mesh = Mesh(n_ranks, shards, to, options.set_separate_reduce_scatter_group)
    limit = options.set_reduce_scatter_max_input_buffers
    return State(PlanWriter(), numerics, wrapping(workload, calls), mesh, limit)


def _reshard_to(reshard_after_forward: bool | int, shards: int) -> int:
    """Over how many ranks a group is kept after the forward (torch's _get_post_forward_mesh_info)."""
    if isinstance(reshard_after_forward, bool):
        return shards if reshard_after_forward else 0
    if not 1 <= reshard_after_forward <= shards or shards % reshard_after_forward:
        raise ScenarioError(
            f"schedule.reshard_after_forward is {reshard_after_forward}: as an int it should be a "
            f"factor of {shards}, the ranks of the shard mesh"
        )
    # Torch warns that 1 means a mesh of one rank, and then keeps the parameters.
    return 0 if reshard_after_forward == 1 else reshard_after_forward


def _forward(state: State, ahead: int) -> None:
    groups, at = state.wrapping.inner, 0
    hooks.root_pre_forward(state)
    for module in state.wrapping.modules:
        if module.group is not None:
            at += 1
            hooks.pre_forward(state, module.group)
            for group in groups[at : at + ahead]:
                hooks.unshard(state, group)
        for layer in module.layers:
            layers.forward(state.writer, layer, state.numerics, after=taken(state.compute_waits))
        if module.group is not None:
            hooks.post_forward(state, module.group)
    hooks.root_post_forward(state)


def _backward(state: State, ahead: int, now: MicroBatch) -> None:
    root, groups = state.wrapping.root, state.wrapping.inner
    at = len(groups)
    if root is not None:
        hooks.pre_backward(state, root, implicit=True)
    for module in reversed(state.wrapping.modules):
        if module.group is not None:
            at -= 1
            before = groups[max(0, at - ahead) : at]
            hooks.pre_backward(state, module.group, implicit=not before)
            for group in reversed(before):
                hooks.unshard(state, group)
        for layer in reversed(module.layers):
            gradients.backward(state, layer, module.group or root)
        if module.group is not None and not module.first:
            # An input that needs no gradient makes torch run the hook at the very end.
            gradients.post_backward(state, module.group, now)
    gradients.root_post_backward(state, now)


def _update(state: State) -> None:
    owned = _owned(state)
    moved = [elements * state.numerics.update_bytes for elements in owned]
    reduced = [elements * state.numerics.reduce_bytes for elements in owned]
    after = clipped(
        state.writer,
        state.numerics,
        max(reduced),
        after=taken(state.compute_waits),
        group=state.mesh.shard_axis,
        nbytes_by_rank=spread(reduced) if len(set(reduced)) > 1 else None,
    )
    state.writer.compute(
        Kind.OPTIMIZER,
        "",
        after=after,
        memory_bytes=max(moved),
        memory_bytes_by_rank=spread(moved) if len(set(moved)) > 1 else None,
        frees=gradients.sharded_gradients(state),
    )


def _finished(state: State) -> Plan:
    groups = (*state.wrapping.groups, *state.wrapping.idle)
    shard = sum(group.gathered.shard for group in groups)
    states = [elements * state.numerics.optimizer_bytes for elements in _owned(state)]
    held = (
        Allocation("parameters", "parameters", shard * state.numerics.storage_bytes),
        uneven("optimizer", "optimizer", states),
    )
    ops = layers.steps_end(state.writer.ops)
    return Plan("fsdp2", state.mesh.n_ranks, ops, state.mesh.axes, held, reuse=Reuse.DROPPED)


def _owned(state: State) -> list[int]:
    """Real elements of each rank, which its optimizer updates; replicas of a shard own the same."""
    shards = state.mesh.shards
    counts = Counter(p for group in state.wrapping.groups for p in group.trained)
    each = [
        sum(n * chunk_owned(p, shards, rank) for p, n in counts.items()) for rank in range(shards)
    ]
    return each * state.mesh.replicas
