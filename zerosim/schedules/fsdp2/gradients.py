"""FSDP2's gradients: made by the backward, kept or reduced by the hook after it, waited for at last."""

from __future__ import annotations

from collections.abc import Iterable

from zerosim.plan import Allocation
from zerosim.schedules import layers
from zerosim.schedules.fsdp2.groups import Group
from zerosim.schedules.fsdp2.hooks import reshard
from zerosim.schedules.fsdp2.reduction import copied, input_key, reduce
from zerosim.schedules.fsdp2.state import MicroBatch, State, drop, taken
from zerosim.workload import Layer, Parameter


def backward(state: State, layer: Layer, group: Group | None) -> None:
    """B: makes the gradients of a layer's parameters, or adds to those that are there.

    What is added is alive for a moment, one parameter at a time.
    """
    made = state.wrapping.makes[layer.name]
    # What is measured of a layer's backward holds the sums of shared parameters already.
    added = () if layer.backward_workspace else state.wrapping.adds[layer.name]
    allocates: list[Allocation] = []
    frees: list[str] = []
    key = f"gradient.{layer.name}"
    if group is not None and made:
        kept = state.gradients.setdefault(group.label, [])
        if key in kept:
            made, added = (), (*made, *added)
        else:
            kept.append(key)
            allocates.append(Allocation(key, "gradients", _nbytes(state, made)))
    if added:
        frees.append(f"added.{layer.name}")
        largest = max(added, key=lambda parameter: parameter.numel)
        allocates.append(Allocation(frees[0], "gradients", _nbytes(state, (largest,))))
    layers.backward(
        state.writer,
        layer,
        state.numerics,
        after=taken(state.compute_waits),
        allocates=tuple(allocates),
        frees=tuple(frees),
    )


def _nbytes(state: State, parameters: Iterable[Parameter]) -> int:
    return sum(parameter.numel for parameter in parameters) * state.numerics.grad_bytes


def post_backward(state: State, group: Group, now: MicroBatch) -> None:
    """Free the parameters and reduce the gradients, or keep those in the dtype of the reduction."""
    state.done.add(group.label)
    _accumulate(state, group)
    if now.reshard:
        reshard(state, group)
    if not now.reduce:
        _keep(state, group)
        return
    while len(state.inputs) >= state.max_input_buffers:
        _recycle(state)
    if group.trained:
        reduce(state, group, now)


def _recycle(state: State) -> None:
    """Drop the oldest retained input of a reduce-scatter, once the compute stream waits for it."""
    label, reduction = state.inputs.popleft()
    state.compute_waits.append(reduction)
    drop(state, (input_key(label),))


def _accumulate(state: State, group: Group) -> None:
    """Add this backward's gradients to those kept in the dtype of the reduction."""
    made = state.gradients.get(group.label)
    if made and group.label in state.accumulated:
        numerics = state.numerics
        copied(
            state,
            f"add{group.label}",
            group,
            group.reduced.numel * (numerics.grad_bytes + 2 * numerics.reduce_bytes),
            frees=made,
        )
        made.clear()


def _keep(state: State, group: Group) -> None:
    """Without a reduction gradients stay whole, in the dtype of the reduction."""
    made = state.gradients.get(group.label)
    numerics = state.numerics
    if not made or numerics.reduce_dtype == numerics.grad_dtype:
        return
    key = f"accumulated.{group.label}"
    state.accumulated[group.label] = key
    copied(
        state,
        f"cast{group.label}",
        group,
        group.reduced.numel * (numerics.grad_bytes + numerics.reduce_bytes),
        allocates=(Allocation(key, "gradients", group.reduced.numel * numerics.reduce_bytes),),
        frees=made,
    )
    made.clear()


def root_post_backward(state: State, now: MicroBatch) -> None:
    """Run the hooks that did not fire, the root's first; then wait for all reductions."""
    for group in state.wrapping.groups:
        if group.label not in state.done:
            post_backward(state, group, now)
        _finalize(state, group)
    state.done.clear()
    state.order.clear()
    while state.inputs:
        _recycle(state)


def _finalize(state: State, group: Group) -> None:
    """The compute stream waits for the reductions so far; what waited for its all-reduce is freed."""
    state.compute_waits += state.ends.values()
    state.ends.clear()
    state.indices.pop(group.label, None)
    output = state.reduced.pop(group.label, None)
    if output is not None:
        drop(state, (output,))


def sharded_gradients(state: State) -> tuple[str, ...]:
    """The keys of this rank's gradients, which the optimizer consumes."""
    keys = tuple(state.sharded.values())
    state.sharded.clear()
    return keys
