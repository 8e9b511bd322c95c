"""ZeRO-1: optimizer states are sharded; gradients stay whole, parameters are gathered after the update."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.schedules import bucket as share
from zerosim.schedules.knobs import knob
from zerosim.schedules.layers import backward_layers, forward_order
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Zero1Options:
    """How gradients and parameters are cut into buckets."""

    bucket_bytes: int | None = knob(
        None,
        "a bucket closes when it reaches or passes this; none: one bucket a unit",
        "bytes",
        tries=(1, 200, 2000),
    )


def zero1(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Zero1Options, steps: int = 1
) -> Plan:
    """The textbook ZeRO-1 step: 2Ψ(N-1)/N on the wire (arXiv 1910.02054 §7.2)."""
    draft = share.draft(workload, n_ranks, numerics, options.bucket_bytes)
    shard = draft.elements // n_ranks
    consumed = (*share.reduced(draft), *share.whole_gradients(draft))
    gathered: dict[int, int] = {}
    for draft.writer.step in range(1, steps + 1):
        reductions = forward_backward(draft, gathered, keep_gradients=True)
        updated = share.update(draft, shard, after=reductions, frees=consumed)
        gathered = gather_updated(draft, options.bucket_bytes, after=updated)
    return share.finished(draft, "zero1", parameters=workload.n_params, optimizer=shard)


def forward_backward(
    draft: share.Draft, gathered: dict[int, int], *, keep_gradients: bool
) -> list[int]:
    """All micro-batches of a step of ZeRO-1 or ZeRO-2; returns the ids of the reduce-scatters.

    `gathered`: what each unit's forward waits for. With `keep_gradients` (ZeRO-1) whole gradients
    stay and are reduced in the last micro-batch; else (ZeRO-2) each micro-batch reduces them.
    """
    writer, workload = draft.writer, draft.workload
    reductions: list[int] = []
    for writer.micro_batch in range(workload.micro_batches):
        first, last = writer.micro_batch == 0, writer.micro_batch == workload.micro_batches - 1
        for layer in workload.layers:
            share.forward(
                draft, layer, after=(gathered[layer.unit],) if layer.unit in gathered else ()
            )
        for layer, complete in backward_layers(workload):
            new = complete and (first or not keep_gradients)
            b = share.backward(draft, layer, gradients=new)
            if complete and (last or not keep_gradients):
                reductions += share.reduce_scatter(
                    draft,
                    layer.unit,
                    after=b,
                    drop=not keep_gradients,
                    keep=first or keep_gradients,
                )
    return reductions


def gather_updated(draft: share.Draft, cap_bytes: int | None, *, after: int) -> dict[int, int]:
    """AG after the update, in forward order; returns the last gather that each unit needs."""
    needs: dict[int, int] = {}
    gathers = share.buckets(
        draft.workload,
        forward_order(draft.workload),
        n_ranks=draft.n_ranks,
        element_bytes=draft.numerics.param_bytes,
        cap_bytes=cap_bytes,
    )
    for bucket in gathers:
        op = draft.writer.collective(
            Kind.ALL_GATHER,
            bucket.label,
            elements=bucket.elements,
            dtype=draft.numerics.dtype,
            after=(after,),
            bucket=bucket.index,
        )
        needs.update({part.unit: op for part in bucket.parts})
    return needs
