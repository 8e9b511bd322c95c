"""ZeRO-1: optimizer states are sharded; gradients stay whole, parameters are gathered after the update."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Axis, Plan, PlanWriter
from zerosim.schedules import bucket as share
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Zero1Options:
    """`bucket_bytes`: a bucket closes when it reaches or passes this; None: one bucket a unit."""

    bucket_bytes: int | None = None


def zero1(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Zero1Options, steps: int = 1
) -> Plan:
    """The textbook ZeRO-1 step: 2Ψ(N-1)/N on the wire (arXiv 1910.02054 §7.2)."""
    return sharded_update(
        "zero1", workload, n_ranks, numerics, options.bucket_bytes, steps, keep_gradients=True
    )


def sharded_update(
    name: str,
    workload: Workload,
    n_ranks: int,
    numerics: Numerics,
    bucket_bytes: int | None,
    steps: int,
    *,
    keep_gradients: bool,
) -> Plan:
    """ZeRO-1 and ZeRO-2: reduce-scatter gradients, update the own shard, all-gather parameters.

    With `keep_gradients` (ZeRO-1) whole gradients stay and are reduced in the last micro-batch; else
    (ZeRO-2) each micro-batch reduces them and keeps only this rank's shard.
    """
    writer = PlanWriter()
    cut = {"n_ranks": n_ranks, "cap_bytes": bucket_bytes}
    order = share.gradient_order(workload)
    every = share.buckets(workload, order, element_bytes=numerics.grad_bytes, **cut)
    gathers = share.buckets(
        workload, share.forward_order(workload), element_bytes=numerics.param_bytes, **cut
    )
    kept = tuple(share.reduced(bucket) for bucket in every)
    if keep_gradients:
        kept += tuple(share.gradient(part, bucket) for bucket in every for part in bucket.parts)
    gathered: dict[int, int] = {}
    for writer.step in range(1, steps + 1):
        reductions: list[int] = []
        for writer.micro_batch in range(workload.micro_batches):
            first, last = writer.micro_batch == 0, writer.micro_batch == workload.micro_batches - 1
            for layer in workload.layers:
                wait = (gathered[layer.unit],) if layer.unit in gathered else ()
                share.forward(writer, layer, numerics, after=wait)
            for layer, complete in share.backward_layers(workload):
                new = complete and (first or not keep_gradients)
                made = share.gradients_of(layer.unit, every, numerics) if new else ()
                b = share.backward(writer, layer, numerics, allocates=made)
                if complete and (last or not keep_gradients):
                    full = share.fill(
                        writer, layer.unit, every, workload, numerics,
                        after=b, flat=True, drop=not keep_gradients,
                    )  # fmt: skip
                    reductions += [
                        share.reduce_scatter(
                            writer, bucket, numerics,
                            after=filled, n_ranks=n_ranks, keep=first or keep_gradients,
                        )
                        for bucket, filled in full
                    ]  # fmt: skip
        shard = sum(bucket.elements for bucket in every) // n_ranks
        step = share.update(writer, shard, numerics, after=reductions, frees=kept)
        gathered = _gather(writer, gathers, numerics, step)
    held = share.held(workload.n_params, shard, numerics)
    return Plan(name, n_ranks, tuple(writer.ops), (Axis("world", n_ranks),), held)


def _gather(
    writer: PlanWriter, gathers: tuple[share.Bucket, ...], numerics: Numerics, after: int
) -> dict[int, int]:
    """AG after the update, in forward order; returns the last gather that each unit needs."""
    needs: dict[int, int] = {}
    for bucket in gathers:
        op = writer.collective(
            Kind.ALL_GATHER,
            bucket.label,
            elements=bucket.elements,
            dtype=numerics.dtype,
            after=(after,),
            bucket=bucket.index,
        )
        needs.update({part.unit: op for part in bucket.parts})
    return needs
