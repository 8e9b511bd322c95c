"""Layers as ops, for every schedule: F, R and B with what they keep, in which order, and a step's end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, Op, PlanWriter
from zerosim.schedules.loss import kept_logits, loss, loss_gradient
from zerosim.workload import Layer, Workload


def gradient_order(workload: Workload) -> tuple[int, ...]:
    """Units in the order in which their gradients are complete: by their first layer, backwards."""
    first_use = {unit: layers[0] for unit, layers in enumerate(workload.uses()) if layers}
    return tuple(sorted(first_use, key=lambda unit: -first_use[unit]))


def forward_order(workload: Workload) -> tuple[int, ...]:
    """Units in the order in which the forward needs them."""
    return tuple(reversed(gradient_order(workload)))


def forward(
    writer: PlanWriter,
    layer: Layer,
    numerics: Numerics,
    *,
    after: Iterable[int] = (),
    allocates: tuple[Allocation, ...] = (),
    frees: tuple[str, ...] = (),
) -> int:
    """F: computes one layer and keeps its activations (and logits) for the backward; then the loss."""
    width = numerics.param_bytes
    scratch, dropped = workspace(Kind.FORWARD, layer, numerics)
    # Of a layer that is computed again, what is gone early is of that.
    early = 0 if layer.recompute_flops else layer.gone_early
    kept = list(_kept(layer, activations(layer), layer.activations - early, early, width))
    if layer.logits:
        kept.append(Allocation(logits(layer), "logits", layer.logits * width))
    computed = writer.compute(
        Kind.FORWARD,
        layer.name,
        after=after,
        flops=layer.forward_flops,
        work=layer.forward_work,
        memory_bytes=layer.forward_elements * width,
        allocates=(*kept, *allocates, *scratch),
        frees=(*frees, *dropped),
    )
    loss(writer, layer, numerics)
    return computed


def backward(
    writer: PlanWriter,
    layer: Layer,
    numerics: Numerics,
    *,
    after: Iterable[int] = (),
    allocates: tuple[Allocation, ...] = (),
    frees: tuple[str, ...] = (),
) -> int:
    """B: computes one layer's gradients and drops its activations (and logits).

    With activation checkpointing an R stands before it, which waits for `after` too; before all, the
    loss.
    """
    after = tuple(after)
    loss_gradient(writer, layer, numerics)
    again = recompute(writer, layer, numerics, after=after)
    if layer.gone_early:
        writer.drop((_early(layer),))
    scratch, dropped = workspace(Kind.BACKWARD, layer, numerics)
    dropped = (activations(layer), *kept_logits(layer), *again, *dropped)
    return writer.compute(
        Kind.BACKWARD,
        layer.name,
        after=after,
        flops=layer.backward_flops,
        work=layer.backward_work,
        memory_bytes=layer.backward_elements * numerics.param_bytes,
        allocates=(*allocates, *scratch),
        frees=(*dropped, *frees),
    )


def workspace(
    kind: Kind, layer: Layer, numerics: Numerics
) -> tuple[tuple[Allocation, ...], tuple[str, ...]]:
    """What an op takes and drops itself: its allocation, and the key to free, if there is any."""
    elements = {
        Kind.FORWARD: layer.forward_workspace,
        Kind.RECOMPUTE: layer.recompute_workspace,
        Kind.BACKWARD: layer.backward_workspace,
    }[kind]
    if not elements:
        return (), ()
    key = f"workspace.{layer.name}"
    return (Allocation(key, "workspace", elements * numerics.param_bytes),), (key,)


def recompute(
    writer: PlanWriter, layer: Layer, numerics: Numerics, *, after: Iterable[int] = ()
) -> tuple[str, ...]:
    """R: computes again what activation checkpointing dropped; returns the keys its B frees."""
    if not layer.recompute_flops:
        return ()
    key = f"recomputed.{layer.name}"
    scratch, dropped = workspace(Kind.RECOMPUTE, layer, numerics)
    early = layer.gone_early
    kept = _kept(layer, key, layer.recomputed - early, early, numerics.param_bytes)
    writer.compute(
        Kind.RECOMPUTE,
        layer.name,
        after=after,
        flops=layer.recompute_flops,
        work=layer.recompute_work,
        memory_bytes=computed_again(layer) * numerics.param_bytes,
        allocates=(*kept, *scratch),
        frees=dropped,
    )
    return (key,)


def computed_again(layer: Layer) -> int:
    """Elements that what activation checkpointing computes again reads and writes."""
    known = layer.recompute_elements
    return layer.forward_elements if known is None else known


def _kept(layer: Layer, key: str, late: int, early: int, width: int) -> Iterator[Allocation]:
    """Elements that stay until the end of B under `key`, and those that are gone early."""
    yield Allocation(key, "activations", late * width)
    if early:
        yield Allocation(_early(layer), "activations", early * width)


def _early(layer: Layer) -> str:
    return f"early.{layer.name}"


def backward_layers(workload: Workload) -> Iterator[tuple[Layer, bool]]:
    """Layers in backward order, each with whether it completes its unit's gradients."""
    uses = workload.uses()
    for i, layer in reversed(list(enumerate(workload.layers))):
        yield layer, uses[layer.unit][0] == i


def activations(layer: Layer) -> str:
    """The key of what a layer keeps for its backward."""
    return f"activations.{layer.name}"


def logits(layer: Layer) -> str:
    """The key of a layer's output scores."""
    return f"logits.{layer.name}"


def last_computed(writer: PlanWriter) -> tuple[int, ...]:
    """The last op of the compute stream so far, to be waited for; empty if there is none."""
    return next(((op.id,) for op in reversed(writer.ops) if op.stream == "compute"), ())


def steps_end(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The ops, with the host waiting for the last one of each step: a loop reads its loss there."""
    ends = {i for i, op in enumerate(ops) if i + 1 == len(ops) or ops[i + 1].step != op.step}
    return tuple(replace(op, blocks=True) if i in ends else op for i, op in enumerate(ops))
