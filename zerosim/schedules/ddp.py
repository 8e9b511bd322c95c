"""DDP: every rank holds everything; gradients are all-reduced in buckets while the backward runs."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.schedules import bucket as share
from zerosim.schedules.knobs import knob
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class DdpOptions:
    """How gradients are cut into buckets."""

    bucket_bytes: int | None = knob(
        25 * 2**20,
        "a bucket closes when it reaches or passes this",
        "bytes",
        tries=(1, 200, 2000),
    )


def ddp(
    workload: Workload, n_ranks: int, numerics: Numerics, options: DdpOptions, steps: int = 1
) -> Plan:
    """The textbook DDP step; gradients are views of their buckets (`gradient_as_bucket_view`)."""
    draft = share.draft(workload, n_ranks, numerics, options.bucket_bytes, split=False)
    writer = draft.writer
    for writer.step in range(1, steps + 1):
        reductions: list[int] = []
        for writer.micro_batch in range(workload.micro_batches):
            for layer in workload.layers:
                share.forward(draft, layer)
            for layer, complete in share.backward_layers(workload):
                b = share.backward(draft, layer, gradients=complete and writer.micro_batch == 0)
                if complete and writer.micro_batch == workload.micro_batches - 1:
                    reductions += _all_reduce(draft, layer.unit, after=b)
        share.update(draft, workload.n_params, after=reductions, frees=share.whole_gradients(draft))
    return share.finished(draft, "ddp", parameters=workload.n_params, optimizer=workload.n_params)


def _all_reduce(draft: share.Draft, unit: int, *, after: int) -> list[int]:
    full = share.fill(draft, unit, after=after, flat=False, drop=False)
    return [
        draft.writer.collective(
            Kind.ALL_REDUCE,
            bucket.label,
            elements=bucket.elements,
            dtype=draft.numerics.grad_dtype,
            after=(filled,),
            bucket=bucket.index,
        )
        for bucket, filled in full
    ]
