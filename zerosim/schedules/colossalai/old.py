"""ColossalAI before its even split: whole parameters, reduced to their owners, then broadcast."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.partition import greedy
from zerosim.plan import Allocation, Plan, PlanWriter, spread, uneven
from zerosim.schedules import numbered
from zerosim.schedules.colossalai.buckets import cut
from zerosim.schedules.colossalai.engine import Engine, finished, micro_batch, reduction, take
from zerosim.schedules.colossalai.flushes import Flush
from zerosim.schedules.colossalai.options import OldOptions
from zerosim.schedules.norm import FLOAT32, cast_bytes, gradient_norm, scalar
from zerosim.workload import Workload


def colossalai1_old(
    workload: Workload, n_ranks: int, numerics: Numerics, options: OldOptions, steps: int = 1
) -> Plan:
    """ZeRO stage 1 before the even split: buckets are all-reduced."""
    return _plan(workload, n_ranks, numerics, options, steps=steps, stage=1)


def colossalai2_old(
    workload: Workload, n_ranks: int, numerics: Numerics, options: OldOptions, steps: int = 1
) -> Plan:
    """ZeRO stage 2 before the even split: a bucket for each owner, reduced to it."""
    return _plan(workload, n_ranks, numerics, options, steps=steps, stage=2)


@dataclass(slots=True)
class _Shared:
    """Elements that each rank owns, and what the next synchronisation waits for and drops."""

    loads: tuple[int, ...]
    issued: list[int] = field(default_factory=list)
    reduced: list[str] = field(default_factory=list)


def _plan(
    workload: Workload,
    n_ranks: int,
    numerics: Numerics,
    options: OldOptions,
    *,
    steps: int,
    stage: int,
) -> Plan:
    numel = tuple(p.numel for unit in workload.units for p in unit.parameters)
    order = numbered.listed(workload)
    owners = dict(zip(order, greedy([numel[i] for i in order], n_ranks), strict=True))
    loads = [0] * n_ranks
    for i, owner in owners.items():
        loads[owner] += numel[i]
    to_owner = owners if stage == 2 else None  # noqa: PLR2004 - the ZeRO stage
    hooks = options.overlap_communication or to_owner is not None
    engine = Engine(
        writer=PlanWriter(),
        workload=workload,
        n_ranks=n_ranks,
        numerics=numerics,
        stage=stage,
        overlaps=options.overlap_communication,
        uses=numbered.used(workload),
        buckets=cut(workload, numel, options.bucket_elements, hooks=hooks, owners=to_owner),
    )
    shared = _Shared(tuple(loads))
    writer = engine.writer
    for writer.step in range(1, steps + 1):
        for writer.micro_batch in range(workload.micro_batches):
            micro_batch(engine, partial(_reduce, shared), syncs=True)
            _keep_own(engine, shared)
        _update(engine, shared)
    held = (
        Allocation("parameters", "parameters", sum(numel) * numerics.storage_bytes),
        uneven("optimizer", "optimizer", [n * numerics.optimizer_bytes for n in loads]),
    )
    return finished(engine, f"colossalai-{stage}-old", held)


def _reduce(shared: _Shared, engine: Engine, bucket: Flush, after: int) -> int:
    """Flatten a bucket, reduce it, copy it back. With overlap the host first synchronises."""
    writer, numerics, k = engine.writer, engine.numerics, bucket.index
    elements, name = engine.buckets.elements[k], engine.buckets.names[k]
    kind = Kind.ALL_REDUCE if engine.stage == 1 else Kind.REDUCE
    if engine.overlaps:
        writer.wait((after, *shared.issued[-1:]), name, frees=take(engine, tuple(shared.reduced)))
        shared.reduced.clear()
    flattened = writer.compute(
        Kind.FILL,
        name,
        after=(after,),
        # Flattened, and divided by the ranks.
        memory_bytes=4 * elements * numerics.grad_bytes,
        stream=engine.stream(kind.value),
        elements=elements,
        dtype=numerics.grad_dtype,
        bucket=k,
        allocates=(Allocation(f"flat.{k}", "buckets", elements * numerics.reduce_bytes),),
    )
    reduced = reduction(engine, kind, k, flattened)
    copied = _copy_back(engine, bucket, reduced, kind)
    shared.issued.append(copied)
    if kind is Kind.REDUCE:
        shared.reduced += engine.buckets.pieces(bucket)
    return copied


def _copy_back(engine: Engine, bucket: Flush, reduced: int, kind: Kind) -> int:
    """Who keeps the sum copies it back; the others drop their gradients, at once if nothing overlaps."""
    k = bucket.index
    nbytes = engine.buckets.elements[k] * engine.numerics.grad_bytes
    owned = [0] * engine.n_ranks
    owned[bucket.owner] = nbytes
    kept = uneven(f"reduced.{k}", "gradients", owned)
    to_owner = kind is Kind.REDUCE
    dropped: tuple[str, ...] = ()
    if to_owner:
        dropped = () if engine.overlaps else take(engine, engine.buckets.pieces(bucket))
        engine.live.add(kept.key)
    return engine.writer.compute(
        Kind.COPY,
        engine.buckets.names[k],
        after=(reduced,),
        memory_bytes=2 * nbytes,
        memory_bytes_by_rank=spread([2 * n for n in owned]) if to_owner else None,
        stream=engine.stream(kind.value),
        bucket=k,
        allocates=(kept,) if to_owner else (),
        frees=(f"flat.{k}", *dropped),
    )


def _keep_own(engine: Engine, shared: _Shared) -> None:
    """sync_grad: each rank keeps the sums of its own parameters, or adds to them; the rest goes."""
    own = [n * engine.numerics.grad_bytes for n in shared.loads]
    sums = uneven("averaged", "gradients", own)
    first = sums.key not in engine.live
    engine.live.discard(sums.key)
    engine.writer.compute(
        Kind.OTHER,
        "sync_grad",
        name="sync_grad",
        after=shared.issued[-1:],
        memory_bytes=0 if first else 3 * max(own),
        memory_bytes_by_rank=None if first else spread([3 * n for n in own]),
        allocates=(sums,) if first else (),
        frees=take(engine, tuple(sorted(engine.live))),
    )
    engine.live.add(sums.key)
    shared.issued.clear()
    shared.reduced.clear()


def _update(engine: Engine, shared: _Shared) -> None:
    """Overflow, norm, OPT on what each rank owns, then a broadcast of every owner's parameters."""
    writer, numerics = engine.writer, engine.numerics
    loads, width = shared.loads, numerics.grad_bytes
    wait = scalar(writer, "overflow", after=())
    own = [n * width for n in loads]
    wait = gradient_norm(writer, max(own), after=(wait,), nbytes_by_rank=spread(own))
    # Flattened, then cast.
    moved = [2 * n * width + cast_bytes(n, width) for n in loads]
    copies = width + (FLOAT32 if width != FLOAT32 else 0)
    master = writer.compute(
        Kind.COPY,
        "master",
        after=(wait,),
        memory_bytes=max(moved),
        memory_bytes_by_rank=spread(moved),
        allocates=(uneven("master", "workspace", [n * copies for n in loads]),),
    )
    stepped = [n * numerics.update_bytes for n in loads]
    updated = writer.compute(
        Kind.OPTIMIZER,
        "",
        after=(master,),
        memory_bytes=max(stepped),
        memory_bytes_by_rank=spread(stepped),
        frees=("master", *take(engine, ("averaged",))),
    )
    copied_back = [n * (FLOAT32 + numerics.param_bytes) for n in loads]
    copied = writer.compute(
        Kind.COPY,
        "parameters",
        after=(updated,),
        memory_bytes=max(copied_back),
        memory_bytes_by_rank=spread(copied_back),
    )
    last = copied
    for rank, elements in enumerate(loads):
        if elements:
            last = writer.collective(
                Kind.BROADCAST,
                str(rank),
                elements=elements,
                dtype=numerics.dtype,
                after=(copied,),
            )
    engine.gathered = dict.fromkeys((i for layer in engine.uses for i in layer), last)
