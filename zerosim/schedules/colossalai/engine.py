"""One rank's engine while its plan is written, and the micro-batch that old and new have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zerosim.kinds import Kind, Reuse
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, Axis, Plan, PlanWriter
from zerosim.schedules import layers
from zerosim.schedules.colossalai.buckets import Buckets
from zerosim.schedules.colossalai.flushes import Flush
from zerosim.workload import Workload


@dataclass(slots=True)
class Engine:
    """What never changes, then what is live.

    `uses`: per layer, the parameters it computes with. `gathered`: by parameter, what its next use
    waits for. `live`: keys of the gradients and sums that are held.
    """

    writer: PlanWriter
    workload: Workload
    n_ranks: int
    numerics: Numerics
    stage: int
    overlaps: bool
    uses: tuple[tuple[int, ...], ...]
    buckets: Buckets
    gathered: dict[int, int] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)

    def stream(self, own: str) -> str:
        """Where a reduction runs: on a stream of its own, or in line with the computing."""
        return own if self.overlaps else "compute"


Reduce = Callable[[Engine, Flush, int], int]
"""Reduces a bucket whose gradients an op completed; returns the id of the last op of it."""


def micro_batch(engine: Engine, reduce: Reduce, *, syncs: bool) -> None:
    """A forward and a backward; if it `syncs`, gradients are reduced, and the host waits for that."""
    writer, numerics = engine.writer, engine.numerics
    for i, layer in enumerate(engine.workload.layers):
        needs = {engine.gathered[p] for p in engine.uses[i] if p in engine.gathered}
        layers.forward(writer, layer, numerics, after=sorted(needs))
    reductions: list[int] = []
    done = -1
    for i, layer in reversed(list(enumerate(engine.workload.layers))):
        new = [a for a in engine.buckets.gradients(i, numerics) if a.key not in engine.live]
        done = layers.backward(writer, layer, numerics, allocates=tuple(new))
        engine.live.update(a.key for a in new)
        if syncs:
            reductions += [reduce(engine, bucket, done) for bucket in engine.buckets.due[i]]
    if syncs:
        reductions += [reduce(engine, bucket, done) for bucket in engine.buckets.rest]
        if engine.overlaps:
            writer.wait(reductions)


def reduction(engine: Engine, kind: Kind, k: int, flattened: int) -> int:
    """The collective of bucket `k`, once it is flat."""
    return engine.writer.collective(
        kind,
        engine.buckets.names[k],
        elements=engine.buckets.elements[k],
        dtype=engine.numerics.reduce_dtype,
        after=(flattened,),
        stream=engine.stream(kind.value),
        bucket=k,
    )


def finished(engine: Engine, name: str, held: tuple[Allocation, ...]) -> Plan:
    """The plan: what a rank holds throughout, and ops whose tensors are recorded on their streams."""
    ops = layers.steps_end(engine.writer.ops)
    axes = (Axis("world", engine.n_ranks),)
    return Plan(name, engine.n_ranks, ops, axes, held, reuse=Reuse.RECORDED)


def take(engine: Engine, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `keys` that are live, to be freed."""
    held = tuple(key for key in keys if key in engine.live)
    engine.live.difference_update(held)
    return held
