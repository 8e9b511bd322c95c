"""FSDP2's hooks of the forward and before the backward: unshard, wait, reshard, prefetch.

# Note [All-gather output is kept]
Copies into an all-gather run on a stream of their own, so that in the forward the copy-in of layer
i+1 overlaps the all-gather of layer i. As the input of an all-gather is a view of its output, the
output of layer i lives until layer i+1 is copied out (torch's _fsdp_param_group.py, note
"Overlapping all-gather copy-in and all-gather").
"""

from __future__ import annotations

from zerosim.kinds import Kind
from zerosim.plan import Allocation
from zerosim.schedules.fsdp2.groups import Group
from zerosim.schedules.fsdp2.state import State, drop, taken
from zerosim.schedules.layers import last_computed


def root_pre_forward(state: State) -> None:
    """The gather streams wait for all that the compute stream has been given: the last update."""
    state.gather_waits += [*last_computed(state.writer), *state.compute_waits]
    if state.wrapping.root is not None:
        pre_forward(state, state.wrapping.root)


def root_post_forward(state: State) -> None:
    """The root is the last to be recorded; the last all-gather output is dropped."""
    if state.wrapping.root is not None:
        post_forward(state, state.wrapping.root)
    _drop_held(state)


def pre_forward(state: State, group: Group) -> None:
    """Gather the parameters, unless that is under way or done, and copy them out."""
    unshard(state, group)
    _wait_for_unshard(state, group, forward=True)


def post_forward(state: State, group: Group) -> None:
    """Free the parameters, or keep a shard over fewer ranks; record the group for the backward."""
    if group.reshard_to == group.shards:
        reshard(state, group)
    elif group.reshard_to:
        _reshard_to_fewer(state, group)
    state.indices.setdefault(group.label, []).append(len(state.order))
    state.order.append(group)


def pre_backward(state: State, group: Group, *, implicit: bool) -> None:
    """Gather the parameters unless they are there; if `implicit`, then those used before them."""
    unshard(state, group)
    _wait_for_unshard(state, group, forward=False)
    if implicit and state.indices.get(group.label):
        index = state.indices[group.label].pop()
        if index > 0:
            unshard(state, state.order[index - 1])


def unshard(state: State, group: Group) -> None:
    """Issue the all-gather of a group: its copy-in on the copy stream, then the collective."""
    label = group.label
    if label in state.pending or label in state.unsharded:
        return
    if label in state.smaller:
        state.gather_waits.append(state.smaller[label])
    n_ranks = group.reshard_to if label in state.smaller else group.shards
    if n_ranks == 1:
        state.pending[label] = None
        return
    state.pending[label] = state.writer.collective(
        Kind.ALL_GATHER,
        label,
        elements=group.gathered.elements,
        dtype=state.numerics.dtype,
        after=(_copy_in(state, group, n_ranks),),
        group="post_forward" if label in state.smaller else state.mesh.shard_axis,
        communicator="post_forward" if label in state.smaller else state.mesh.shard_axis,
    )


def _copy_in(state: State, group: Group, n_ranks: int) -> int:
    """Copy this rank's shard into its place in the output; a cast goes through a flat copy first."""
    numerics, shard = state.numerics, group.gathered.elements // n_ranks
    casts = numerics.storage_dtype != numerics.dtype
    stored = numerics.param_bytes if group.label in state.smaller else numerics.storage_bytes
    output = Allocation(
        _output(group.label), "gathered", group.gathered.elements * numerics.param_bytes
    )
    flat = Allocation(f"cast.{group.label}", "workspace", shard * numerics.param_bytes)
    return state.writer.compute(
        Kind.COPY,
        group.label,
        name=f"copy-in{group.label}",
        stream="copy",
        after=taken(state.gather_waits),
        memory_bytes=2 * shard * numerics.param_bytes
        + (shard * (stored + numerics.param_bytes) if casts else 0),
        allocates=(flat, output) if casts else (output,),
        frees=(flat.key,) if casts else (),
    )


def _wait_for_unshard(state: State, group: Group, *, forward: bool) -> None:
    """Copy the gathered parameters out into tensors of their own, on the compute stream."""
    if group.label not in state.pending:
        return
    gather = state.pending.pop(group.label)
    if forward:
        _drop_held(state)
    frees = [_output(group.label)] if gather is not None and not forward else []
    if state.smaller.pop(group.label, None) is not None:
        frees.append(_kept(group.label))
    nbytes = group.gathered.elements * state.numerics.param_bytes
    copied = state.writer.compute(
        Kind.COPY,
        group.label,
        name=f"copy-out{group.label}",
        after=(*(() if gather is None else (gather,)), *taken(state.compute_waits)),
        memory_bytes=2 * nbytes,
        allocates=(Allocation(_whole(group.label), "gathered", nbytes),),
        frees=tuple(frees),
    )
    state.unsharded.add(group.label)
    if gather is not None and forward:
        state.held = (group.label, copied)  # See Note [All-gather output is kept]
    elif gather is not None:
        state.gather_waits.append(copied)


def _drop_held(state: State) -> None:
    if state.held is not None:
        label, copied = state.held
        state.gather_waits.append(copied)
        state.held = None
        drop(state, (_output(label),))


def reshard(state: State, group: Group) -> None:
    """Free the whole parameters; the shard is there anyway."""
    if group.label in state.unsharded:
        state.unsharded.remove(group.label)
        drop(state, (_whole(group.label),))


def _reshard_to_fewer(state: State, group: Group) -> None:
    """Keep this rank's part of the whole parameters, over fewer ranks than share the group."""
    nbytes = group.gathered.elements // group.reshard_to * state.numerics.param_bytes
    state.unsharded.remove(group.label)
    state.smaller[group.label] = state.writer.compute(
        Kind.COPY,
        group.label,
        name=f"reshard{group.label}",
        memory_bytes=2 * nbytes,
        allocates=(Allocation(_kept(group.label), "gathered", nbytes),),
        frees=(_whole(group.label),),
    )


def _output(label: str) -> str:
    return f"all_gather.{label}"


def _whole(label: str) -> str:
    return f"unsharded.{label}"


def _kept(label: str) -> str:
    return f"post_forward.{label}"
