"""What the schedules share: layers as ops, gradient buckets, the sharded update, what a rank holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.partition import padded
from zerosim.plan import Allocation, PlanWriter
from zerosim.workload import Layer, Workload


@dataclass(frozen=True, slots=True)
class Part:
    """What one unit puts into one bucket."""

    unit: int
    elements: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """Parameters (or their gradients) that travel in one collective; `label` names their units."""

    index: int
    label: str
    parts: tuple[Part, ...]

    @property
    def elements(self) -> int:
        """Elements of the whole bucket, padding included."""
        return sum(part.elements for part in self.parts)

    @property
    def last_unit(self) -> int:
        """The unit whose part completes the bucket."""
        return self.parts[-1].unit


def buckets(
    workload: Workload,
    units: Sequence[int],
    *,
    n_ranks: int,
    element_bytes: int,
    cap_bytes: int | None,
) -> tuple[Bucket, ...]:
    """Cut the parameters of `units`, in that order, into buckets; each is padded to `n_ranks`.

    Within a unit the last parameter comes first, as gradients do. A bucket closes when its size reaches or passes `cap_bytes` (torch's reducer.cpp), or at the end
    of a unit if the cap is None. Parameters are never split.
    """
    closed: list[list[Part]] = []
    parts: dict[int, int] = {}
    for unit in units:
        for parameter in reversed(workload.units[unit].parameters):
            parts[unit] = parts.get(unit, 0) + padded(parameter.numel, n_ranks)
            if cap_bytes is not None and sum(parts.values()) * element_bytes >= cap_bytes:
                closed.append([Part(u, n) for u, n in parts.items()])
                parts = {}
        if cap_bytes is None and parts:
            closed.append([Part(u, n) for u, n in parts.items()])
            parts = {}
    if parts:
        closed.append([Part(u, n) for u, n in parts.items()])
    return tuple(
        Bucket(i, _label(workload, members), tuple(members)) for i, members in enumerate(closed)
    )


def _label(workload: Workload, parts: Sequence[Part]) -> str:
    first, last = workload.units[parts[0].unit].name, workload.units[parts[-1].unit].name
    return first if first == last else f"{first}-{last}"


def gradient_order(workload: Workload) -> tuple[int, ...]:
    """Units in the order in which their gradients are complete: by their first layer, backwards."""
    first_use = {unit: workload.uses(unit)[0] for unit in {la.unit for la in workload.layers}}
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
    frees: tuple[str, ...] = (),
) -> int:
    """F: computes one layer and keeps its activations (and logits) for the backward."""
    kept = [Allocation(activations(layer), "activations", layer.activations * numerics.param_bytes)]
    if layer.logits:
        kept.append(Allocation(f"logits.{layer.name}", "logits", layer.logits * numerics.param_bytes))
    return writer.compute(
        Kind.FORWARD,
        layer.name,
        after=after,
        flops=layer.forward_flops,
        memory_bytes=layer.forward_elements * numerics.param_bytes,
        allocates=tuple(kept),
        frees=frees,
    )


def backward(
    writer: PlanWriter,
    layer: Layer,
    numerics: Numerics,
    *,
    after: Iterable[int] = (),
    allocates: tuple[Allocation, ...] = (),
    frees: tuple[str, ...] = (),
) -> int:
    """B: computes one layer's gradients and drops its activations (and logits)."""
    dropped = (activations(layer), *((f"logits.{layer.name}",) if layer.logits else ()))
    return writer.compute(
        Kind.BACKWARD,
        layer.name,
        after=after,
        flops=layer.backward_flops,
        memory_bytes=layer.backward_elements * numerics.param_bytes,
        allocates=allocates,
        frees=(*dropped, *frees),
    )


def backward_layers(workload: Workload) -> Iterator[tuple[Layer, bool]]:
    """Layers in backward order, each with whether it completes its unit's gradients."""
    for i, layer in reversed(list(enumerate(workload.layers))):
        yield layer, workload.uses(layer.unit)[0] == i


def activations(layer: Layer) -> str:
    """The key of what a layer keeps for its backward."""
    return f"activations.{layer.name}"


def gradient(part: Part, bucket: Bucket) -> str:
    """The key of the gradients that one unit puts into one bucket."""
    return f"gradient.{part.unit}.{bucket.index}"


def reduced(bucket: Bucket) -> str:
    """The key of this rank's shard of a bucket's reduced gradients."""
    return f"reduced.{bucket.index}"


def gradients_of(
    unit: int, every: Sequence[Bucket], numerics: Numerics
) -> tuple[Allocation, ...]:
    """What the backward of `unit` allocates: its gradients, one piece a bucket."""
    return tuple(
        Allocation(gradient(part, bucket), "gradients", part.elements * numerics.grad_bytes)
        for bucket in every
        for part in bucket.parts
        if part.unit == unit
    )


def fill(
    writer: PlanWriter,
    unit: int,
    every: Sequence[Bucket],
    workload: Workload,
    numerics: Numerics,
    *,
    after: int,
    flat: bool,
    drop: bool,
) -> tuple[tuple[Bucket, int], ...]:
    """Put a unit's gradients into its buckets, and drop them if `drop`; returns the full buckets.

    With `flat` a bucket's buffer is allocated with its first part, else the gradients are views of it.
    Each full bucket comes with the id of the op that completed it.
    """
    full: list[tuple[Bucket, int]] = []
    for bucket in every:
        for part in bucket.parts:
            if part.unit != unit:
                continue
            first = flat and part is bucket.parts[0]
            op = writer.compute(
                Kind.FILL,
                workload.units[unit].name,
                after=(after,),
                elements=part.elements,
                dtype=numerics.grad_dtype,
                bucket=bucket.index,
                allocates=(_buffer(bucket, numerics),) if first else (),
                frees=(gradient(part, bucket),) if drop else (),
            )
            if part is bucket.parts[-1]:
                full.append((bucket, op))
    return tuple(full)


def _buffer(bucket: Bucket, numerics: Numerics) -> Allocation:
    nbytes = bucket.elements * numerics.grad_bytes
    return Allocation(f"bucket.{bucket.index}", "buckets", nbytes)


def reduce_scatter(
    writer: PlanWriter,
    bucket: Bucket,
    numerics: Numerics,
    *,
    after: int,
    n_ranks: int,
    communicator: str = "world",
    keep: bool = True,
) -> int:
    """RS: leaves each rank its shard of the bucket's summed gradients.

    With `keep`, the shard is allocated; else it is added to the one of an earlier micro-batch.
    """
    shard = Allocation(
        reduced(bucket), "gradients", bucket.elements // n_ranks * numerics.grad_bytes
    )
    return writer.collective(
        Kind.REDUCE_SCATTER,
        bucket.label,
        elements=bucket.elements,
        dtype=numerics.grad_dtype,
        after=(after,),
        communicator=communicator,
        bucket=bucket.index,
        allocates=(shard,) if keep else (),
        frees=(f"bucket.{bucket.index}",),
    )


def update(
    writer: PlanWriter,
    elements: int,
    numerics: Numerics,
    *,
    after: Iterable[int],
    frees: tuple[str, ...],
) -> int:
    """OPT: steps the optimizer for the `elements` this rank owns and drops the gradients."""
    return writer.compute(
        Kind.OPTIMIZER,
        "",
        after=after,
        memory_bytes=elements * numerics.update_bytes,
        frees=frees,
    )


def held(parameters: int, optimizer: int, numerics: Numerics) -> tuple[Allocation, ...]:
    """What a rank holds throughout: so many elements of parameters and of optimizer states."""
    return (
        Allocation("parameters", "parameters", parameters * numerics.param_bytes),
        Allocation("optimizer", "optimizer", optimizer * numerics.optimizer_bytes),
    )
