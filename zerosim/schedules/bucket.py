"""What the textbook schedules share: gradient buckets, the sharded update, what a rank holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.partition import padded
from zerosim.plan import Allocation, Axis, Plan, PlanWriter
from zerosim.schedules import layers
from zerosim.schedules.layers import gradient_order
from zerosim.schedules.norm import clipped
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


def buckets(
    workload: Workload,
    units: Sequence[int],
    *,
    n_ranks: int,
    element_bytes: int,
    cap_bytes: int | None,
) -> tuple[Bucket, ...]:
    """Cut the parameters of `units`, in that order, into buckets; each is padded to `n_ranks`.

    Within a unit the last parameter comes first, as gradients do. A bucket closes when its size
    reaches or passes `cap_bytes` (torch's reducer.cpp), or at the end of a unit if the cap is None.
    Parameters are never split. Raises ScenarioError for a cap below 1.
    """
    if cap_bytes is not None and cap_bytes < 1:
        raise ScenarioError(f"schedule.bucket_bytes is {cap_bytes}: give at least 1")
    closed: list[list[Part]] = []
    parts: dict[int, int] = {}
    size = 0
    for unit in units:
        for parameter in reversed(workload.units[unit].parameters):
            elements = padded(parameter.numel, n_ranks)
            parts[unit] = parts.get(unit, 0) + elements
            size += elements * element_bytes
            if cap_bytes is not None and size >= cap_bytes:
                closed.append([Part(u, n) for u, n in parts.items()])
                parts, size = {}, 0
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


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan being written: for whom, and how its gradients are cut into buckets.

    `pieces` says, per unit, what it puts into which bucket.
    """

    writer: PlanWriter
    workload: Workload
    n_ranks: int
    numerics: Numerics
    buckets: tuple[Bucket, ...]
    pieces: dict[int, tuple[tuple[Bucket, Part], ...]]

    @property
    def elements(self) -> int:
        """Elements of all gradients, padding included."""
        return sum(bucket.elements for bucket in self.buckets)


def draft(
    workload: Workload,
    n_ranks: int,
    numerics: Numerics,
    cap_bytes: int | None,
    *,
    split: bool = True,
) -> Draft:
    """An empty plan; gradients are padded to divide by the ranks if they are to be `split`."""
    every = buckets(
        workload,
        gradient_order(workload),
        n_ranks=n_ranks if split else 1,
        element_bytes=numerics.reduce_bytes,
        cap_bytes=cap_bytes,
    )
    pieces: dict[int, tuple[tuple[Bucket, Part], ...]] = {}
    for bucket in every:
        for part in bucket.parts:
            pieces[part.unit] = (*pieces.get(part.unit, ()), (bucket, part))
    return Draft(PlanWriter(), workload, n_ranks, numerics, every, pieces)


def finished(draft: Draft, name: str, parameters: int, optimizer: int) -> Plan:
    """The plan: each rank holds so many elements of parameters and of optimizer states throughout.

    The host waits for the last op of each step.
    """
    held = (
        Allocation("parameters", "parameters", parameters * draft.numerics.storage_bytes),
        Allocation("optimizer", "optimizer", optimizer * draft.numerics.optimizer_bytes),
    )
    ops = layers.steps_end(draft.writer.ops)
    return Plan(name, draft.n_ranks, ops, (Axis("world", draft.n_ranks),), held)


def forward(
    draft: Draft, layer: Layer, *, after: Iterable[int] = (), frees: tuple[str, ...] = ()
) -> int:
    """F: computes one layer and keeps its activations (and logits) for the backward."""
    return layers.forward(draft.writer, layer, draft.numerics, after=after, frees=frees)


def backward(
    draft: Draft,
    layer: Layer,
    *,
    gradients: bool,
    after: Iterable[int] = (),
    frees: tuple[str, ...] = (),
) -> int:
    """B: computes one layer's gradients and drops its activations (and logits).

    With `gradients`, those of its unit are allocated, one piece a bucket.
    """
    width = draft.numerics.grad_bytes
    made = tuple(
        Allocation(gradient(part, bucket), "gradients", part.elements * width)
        for bucket, part in draft.pieces[layer.unit]
    )
    return layers.backward(
        draft.writer,
        layer,
        draft.numerics,
        after=after,
        allocates=made if gradients else (),
        frees=frees,
    )


def gradient(part: Part, bucket: Bucket) -> str:
    """The key of the gradients that one unit puts into one bucket."""
    return f"gradient.{part.unit}.{bucket.index}"


def whole_gradients(draft: Draft) -> tuple[str, ...]:
    """The keys of all gradients."""
    return tuple(gradient(part, bucket) for bucket in draft.buckets for part in bucket.parts)


def reduced(draft: Draft) -> tuple[str, ...]:
    """The keys of this rank's shards of the reduced gradients."""
    return tuple(f"reduced.{bucket.index}" for bucket in draft.buckets)


def fill(
    draft: Draft, unit: int, *, after: int, flat: bool, drop: bool
) -> tuple[tuple[Bucket, int], ...]:
    """Put a unit's gradients into its buckets, and drop them if `drop`; returns the full buckets.

    With `flat` a bucket's buffer is allocated with its first part, else the gradients are views of
    it. Each full bucket comes with the id of the op that completed it.
    """
    full: list[tuple[Bucket, int]] = []
    for bucket, part in draft.pieces[unit]:
        nbytes = bucket.elements * draft.numerics.reduce_bytes
        buffer = Allocation(f"bucket.{bucket.index}", "buckets", nbytes)
        op = draft.writer.compute(
            Kind.FILL,
            draft.workload.units[unit].name,
            after=(after,),
            elements=part.elements,
            dtype=draft.numerics.reduce_dtype,
            bucket=bucket.index,
            allocates=(buffer,) if flat and part is bucket.parts[0] else (),
            frees=(gradient(part, bucket),) if drop else (),
        )
        if part is bucket.parts[-1]:
            full.append((bucket, op))
    return tuple(full)


def reduce_scatter(
    draft: Draft, unit: int, *, after: int, drop: bool, keep: bool, communicator: str = "world"
) -> list[int]:
    """RS of every bucket that `unit` completes: each rank keeps its shard of the summed gradients.

    With `keep`, the shard is allocated; else it is added to the one of an earlier micro-batch.
    """
    ids: list[int] = []
    for bucket, filled in fill(draft, unit, after=after, flat=True, drop=drop):
        nbytes = bucket.elements // draft.n_ranks * draft.numerics.reduce_bytes
        shard = Allocation(f"reduced.{bucket.index}", "gradients", nbytes)
        op = draft.writer.collective(
            Kind.REDUCE_SCATTER,
            bucket.label,
            elements=bucket.elements,
            dtype=draft.numerics.reduce_dtype,
            after=(filled,),
            communicator=communicator,
            bucket=bucket.index,
            allocates=(shard,) if keep else (),
            frees=(f"bucket.{bucket.index}",),
        )
        ids.append(op)
    return ids


def update(draft: Draft, elements: int, *, after: Iterable[int], frees: tuple[str, ...]) -> int:
    """OPT: steps the optimizer for the `elements` this rank owns and drops the gradients."""
    nbytes = elements * draft.numerics.reduce_bytes
    after = clipped(draft.writer, draft.numerics, nbytes, after=after, group="world")
    return draft.writer.compute(
        Kind.OPTIMIZER,
        "",
        after=after,
        memory_bytes=elements * draft.numerics.update_bytes,
        frees=frees,
    )
