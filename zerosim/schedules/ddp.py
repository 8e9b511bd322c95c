"""DDP: every rank holds everything; gradients are all-reduced in buckets while the backward runs."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Axis, Plan, PlanWriter
from zerosim.schedules import bucket as share
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class DdpOptions:
    """`bucket_bytes`: a bucket closes when it reaches or passes this (torch's bucket_cap_mb, 25)."""

    bucket_bytes: int | None = 25 * 2**20


def ddp(
    workload: Workload, n_ranks: int, numerics: Numerics, options: DdpOptions, steps: int = 1
) -> Plan:
    """The textbook DDP step; gradients are views of their buckets (`gradient_as_bucket_view`)."""
    writer = PlanWriter()
    every = share.buckets(
        workload,
        share.gradient_order(workload),
        n_ranks=1,
        element_bytes=numerics.grad_bytes,
        cap_bytes=options.bucket_bytes,
    )
    kept = tuple(share.gradient(part, bucket) for bucket in every for part in bucket.parts)
    for writer.step in range(1, steps + 1):
        reductions: list[int] = []
        for writer.micro_batch in range(workload.micro_batches):
            for layer in workload.layers:
                share.forward(writer, layer, numerics)
            for layer, complete in share.backward_layers(workload):
                new = complete and writer.micro_batch == 0
                made = share.gradients_of(layer.unit, every, numerics) if new else ()
                b = share.backward(writer, layer, numerics, allocates=made)
                if complete and writer.micro_batch == workload.micro_batches - 1:
                    reductions += _all_reduce(writer, layer.unit, every, workload, numerics, b)
        share.update(writer, workload.n_params, numerics, after=reductions, frees=kept)
    everything = share.held(workload.n_params, workload.n_params, numerics)
    return Plan("ddp", n_ranks, tuple(writer.ops), (Axis("world", n_ranks),), everything)


def _all_reduce(
    writer: PlanWriter,
    unit: int,
    every: tuple[share.Bucket, ...],
    workload: Workload,
    numerics: Numerics,
    after: int,
) -> list[int]:
    full = share.fill(writer, unit, every, workload, numerics, after=after, flat=False, drop=False)
    return [
        writer.collective(
            Kind.ALL_REDUCE,
            bucket.label,
            elements=bucket.elements,
            dtype=numerics.grad_dtype,
            after=(filled,),
            bucket=bucket.index,
        )
        for bucket, filled in full
    ]
