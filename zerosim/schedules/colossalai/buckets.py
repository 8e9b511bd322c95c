"""Which gradients share a bucket, when each bucket is reduced, and what the backward makes for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zerosim.numerics import Numerics
from zerosim.plan import Allocation
from zerosim.schedules import numbered
from zerosim.schedules.colossalai.flushes import Flush, flushes
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a model, in the order in which they are reduced.

    `due`: per layer, those that its gradients push out; `rest`: those left when the backward is over.
    `made`: per layer, what its backward makes of which bucket, in elements.
    `elements`: of each bucket, padding included; `names`: how each is called.
    """

    due: tuple[tuple[Flush, ...], ...]
    rest: tuple[Flush, ...]
    made: tuple[dict[int, int], ...]
    elements: tuple[int, ...]
    names: tuple[str, ...]

    def gradients(self, layer: int, numerics: Numerics) -> tuple[Allocation, ...]:
        """The gradients that the backward of a layer allocates, one piece a bucket."""
        width = numerics.grad_bytes
        return tuple(
            Allocation(f"gradient.{layer}.{bucket}", "gradients", elements * width)
            for bucket, elements in self.made[layer].items()
        )

    def pieces(self, bucket: Flush) -> tuple[str, ...]:
        """The keys of the gradients in a bucket."""
        return tuple(
            f"gradient.{layer}.{bucket.index}"
            for layer, made in enumerate(self.made)
            if bucket.index in made
        )


def cut(
    workload: Workload,
    sizes: tuple[int, ...],
    cap: int,
    *,
    hooks: bool,
    owners: Mapping[int, int] | None = None,
) -> Buckets:
    """Put the gradients of a model into buckets of `cap` elements; `sizes` are padded elements.

    With `hooks`, gradients arrive as the backward makes them; without, they are put into buckets
    after it, in the model's order.
    """
    numel = tuple(p.numel for unit in workload.units for p in unit.parameters)
    done = numbered.completed(workload)
    order = [i for layer in reversed(done) for i in layer]
    found = flushes(
        order if hooks else numbered.defined(workload),
        numel=numel,
        held=sizes,
        cap=cap,
        owners=owners,
    )
    bucket_of = {i: bucket.index for bucket in found for i in bucket.parameters}
    made: list[dict[int, int]] = []
    for layer in numbered.begun(workload):
        pieces: dict[int, int] = {}
        for i in layer:
            pieces[bucket_of[i]] = pieces.get(bucket_of[i], 0) + numel[i]
        made.append(pieces)
    by_arrival: dict[int, list[Flush]] = {}
    for bucket in found:
        if hooks and bucket.at is not None:
            by_arrival.setdefault(bucket.at, []).append(bucket)
    units = numbered.unit_names(workload)
    return Buckets(
        due=tuple(tuple(b for i in layer for b in by_arrival.get(i, ())) for layer in done),
        rest=tuple(b for b in found if not hooks or b.at is None),
        made=tuple(made),
        elements=tuple(sum(sizes[i] for i in b.parameters) for b in found),
        names=tuple(numbered.label(units, b.parameters) for b in found),
    )
