"""FSDP2's reduction: gradients into a flat padded input, reduced to this rank's shard, and kept."""

from __future__ import annotations

from collections.abc import Iterable

from zerosim.kinds import Kind
from zerosim.plan import Allocation
from zerosim.schedules.fsdp2.groups import Group
from zerosim.schedules.fsdp2.state import MicroBatch, State, drop, taken


def reduce(state: State, group: Group, now: MicroBatch) -> None:
    """Copy in, reduce-scatter over the shard mesh, all-reduce over the replicas, keep the shard."""
    output = f"reduced.{group.label}.{state.writer.micro_batch}"
    last = _reduce_scatter(state, group, output)
    partial = state.partial.pop(group.label, None)
    if partial is not None:
        # What was reduced before is let go when this reduction is issued, or goes on collecting.
        freed = None if now.all_reduce else output
        last = _add(state, group, "reduce_scatter", state.numerics.reduce_bytes, freed)
        output = output if now.all_reduce else partial
    if state.mesh.replicas > 1 and not now.all_reduce:
        state.partial[group.label] = output
        state.ends["reduce_scatter"] = last
        return
    stream = "reduce_scatter"
    if state.mesh.replicas > 1:
        stream = "all_reduce"
        last = _all_reduce(state, group, last)
        state.reduced[group.label] = output
    if _factors(state)[1] != 1:
        last = _divide(state, group, stream, group.reduced.shard)
    state.ends[stream] = _shard(state, group, stream, output, last)
    drop(state, () if partial is None else (partial,))


def _reduce_scatter(state: State, group: Group, output: str) -> int:
    """RS of the group, its input padded row by row; the input is retained for later ones to wait for."""
    numerics = state.numerics
    accumulated = state.accumulated.pop(group.label, None)
    made = state.gradients.pop(group.label, [])
    sources = [accumulated] if accumulated is not None else made
    width = numerics.grad_bytes if accumulated is None else numerics.reduce_bytes
    elements = group.reduced.elements
    entered = state.writer.compute(
        Kind.FILL if group.shards > 1 else Kind.COPY,
        group.label,
        name=f"chunk-cat{group.label}",
        after=taken(state.compute_waits),
        memory_bytes=group.reduced.numel * width + elements * numerics.reduce_bytes,
        elements=elements,
        dtype=numerics.reduce_dtype,
        bucket=_bucket(state, group),
        allocates=(
            Allocation(input_key(group.label), "buckets", elements * numerics.reduce_bytes),
        ),
        frees=tuple(sources),
    )
    shard = Allocation(output, "gradients", group.reduced.shard * numerics.reduce_bytes)
    if _factors(state)[0] != 1:
        entered = _divide(state, group, "reduce_scatter", group.reduced.elements, after=(entered,))
    if group.shards == 1:
        reduction = copied(
            state,
            f"reduce{group.label}",
            group,
            2 * shard.nbytes,
            stream="reduce_scatter",
            after=(entered,),
            allocates=(shard,),
        )
    else:
        axis = state.mesh.shard_axis
        reduction = state.writer.collective(
            Kind.REDUCE_SCATTER,
            group.label,
            elements=group.reduced.elements,
            dtype=numerics.reduce_dtype,
            after=(entered,),
            group=axis,
            communicator=f"{axis}.reduce_scatter" if state.mesh.separate else axis,
            bucket=_bucket(state, group),
            allocates=(shard,),
        )
    state.inputs.append((group.label, reduction))
    return reduction


def _bucket(state: State, group: Group) -> int:
    """Each group's input is a bucket; they count in the order in which they are first filled."""
    return state.buckets.setdefault(group.label, len(state.buckets))


def _all_reduce(state: State, group: Group, after: int) -> int:
    return state.writer.collective(
        Kind.ALL_REDUCE,
        group.label,
        elements=group.reduced.shard,
        dtype=state.numerics.reduce_dtype,
        after=(after,),
        group="replicate",
        communicator="replicate",
    )


def _shard(state: State, group: Group, stream: str, output: str, last: int) -> int:
    """The reduced gradient becomes the shard's, in its dtype, or is added to the one that is there."""
    numerics = state.numerics
    made = output
    if numerics.reduce_dtype != numerics.storage_dtype:
        made = f"sharded_gradient.{group.label}.{state.writer.micro_batch}"
        nbytes = group.reduced.shard * numerics.storage_bytes
        last = copied(
            state,
            f"cast{group.label}",
            group,
            nbytes + group.reduced.shard * numerics.reduce_bytes,
            stream=stream,
            allocates=(Allocation(made, "gradients", nbytes),),
            frees=() if group.label in state.reduced else (output,),
        )
    if group.label not in state.sharded:
        state.sharded[group.label] = made
        if made == output:
            state.reduced.pop(group.label, None)
        return last
    held = made == output and group.label in state.reduced
    return _add(state, group, stream, numerics.storage_bytes, None if held else made)


def _add(state: State, group: Group, stream: str, width: int, freed: str | None) -> int:
    return copied(
        state,
        f"add{group.label}",
        group,
        3 * group.reduced.shard * width,
        stream=stream,
        frees=() if freed is None else (freed,),
    )


def _divide(
    state: State, group: Group, stream: str, elements: int, after: Iterable[int] = ()
) -> int:
    nbytes = 2 * elements * state.numerics.reduce_bytes
    return copied(state, f"divide{group.label}", group, nbytes, stream=stream, after=after)


def _factors(state: State) -> tuple[float, float]:
    """What gradients are divided by before and after a reduction that does not average by itself.

    Float32 and bfloat16 are averaged by the collective; torch divides others by about the square
    root of the ranks before and after (_get_gradient_divide_factors).
    """
    if state.numerics.reduce_dtype in ("float32", "bfloat16"):
        return 1, 1
    ranks, before = state.mesh.n_ranks, 1
    while ranks % before == 0 and ranks / before > before:
        before *= 2
    return before, ranks / before


def copied(
    state: State,
    name: str,
    group: Group,
    memory_bytes: int,
    *,
    stream: str = "compute",
    after: Iterable[int] = (),
    allocates: tuple[Allocation, ...] = (),
    frees: Iterable[str] = (),
) -> int:
    """A copy, a cast, a sum or a division; on the compute stream it waits as that stream does."""
    waits = taken(state.compute_waits) if stream == "compute" else ()
    return state.writer.compute(
        Kind.COPY,
        group.label,
        name=name,
        stream=stream,
        after=(*after, *waits),
        memory_bytes=memory_bytes,
        allocates=allocates,
        frees=tuple(frees),
    )


def input_key(label: str) -> str:
    """The key of the input of a group's reduce-scatter."""
    return f"reduce_scatter.{label}"
