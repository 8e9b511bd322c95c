"""ZeRO-2: optimizer states and gradients are sharded; parameters are gathered after the update."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.schedules import bucket as share
from zerosim.schedules.knobs import knob
from zerosim.schedules.zero1 import forward_backward, gather_updated
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Zero2Options:
    """How gradients and parameters are cut into buckets."""

    bucket_bytes: int | None = knob(
        None,
        "a bucket closes when it reaches or passes this; none: one bucket a unit",
        "bytes",
        tries=(1, 200, 2000),
    )


def zero2(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Zero2Options, steps: int = 1
) -> Plan:
    """The textbook ZeRO-2 step: 2Ψ(N-1)/N on the wire a micro-batch (arXiv 1910.02054 §7.2)."""
    draft = share.draft(workload, n_ranks, numerics, options.bucket_bytes)
    shard = draft.elements // n_ranks
    gathered: dict[int, int] = {}
    for draft.writer.step in range(1, steps + 1):
        reductions = forward_backward(draft, gathered, keep_gradients=False)
        updated = share.update(draft, shard, after=reductions, frees=share.reduced(draft))
        gathered = gather_updated(draft, options.bucket_bytes, after=updated)
    return share.finished(draft, "zero2", parameters=workload.n_params, optimizer=shard)
