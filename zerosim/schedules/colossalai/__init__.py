"""ColossalAI's low-level ZeRO-1 and 2: every parameter split evenly, buckets laid out rank by rank."""

from __future__ import annotations

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.partition import padded
from zerosim.plan import Allocation, Plan, PlanWriter
from zerosim.schedules import numbered
from zerosim.schedules.colossalai.buckets import cut
from zerosim.schedules.colossalai.engine import Engine, finished, micro_batch, reduction, take
from zerosim.schedules.colossalai.flushes import Flush, without
from zerosim.schedules.colossalai.gather import gather_updated
from zerosim.schedules.colossalai.options import LowLevelOptions, Stage1Options, Stage2Options
from zerosim.schedules.norm import FLOAT32, cast_bytes, gradient_norm, scalar
from zerosim.workload import Workload


def colossalai1(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Stage1Options, steps: int = 1
) -> Plan:
    """ZeRO stage 1 all-reduces its buckets and keeps the whole averaged gradient."""
    return _plan(_engine(workload, n_ranks, numerics, options, 1), workload, options, steps)


def colossalai2(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Stage2Options, steps: int = 1
) -> Plan:
    """ZeRO stage 2 reduce-scatters its buckets and keeps its own slice."""
    return _plan(_engine(workload, n_ranks, numerics, options, 2), workload, options, steps)


def _engine(
    workload: Workload, n_ranks: int, numerics: Numerics, options: LowLevelOptions, stage: int
) -> Engine:
    kept = without(workload, options.drop_layers)
    hooks = options.overlap_communication or stage == 2  # noqa: PLR2004 - the ZeRO stage
    return Engine(
        writer=PlanWriter(),
        workload=kept,
        n_ranks=n_ranks,
        numerics=numerics,
        stage=stage,
        overlaps=options.overlap_communication,
        uses=numbered.used(kept),
        buckets=cut(kept, _sizes(kept, n_ranks), options.bucket_elements, hooks=hooks),
    )


def _sizes(workload: Workload, n_ranks: int) -> tuple[int, ...]:
    return tuple(padded(p.numel, n_ranks) for unit in workload.units for p in unit.parameters)


def _plan(engine: Engine, workload: Workload, options: LowLevelOptions, steps: int) -> Plan:
    writer, n_ranks, numerics = engine.writer, engine.n_ranks, engine.numerics
    for writer.step in range(1, steps + 1):
        for writer.micro_batch in range(workload.micro_batches):
            last = writer.micro_batch == workload.micro_batches - 1
            micro_batch(engine, _reduce, syncs=last or not options.no_sync)
        updated = _update(engine)
        _gather(engine, options, updated)
    every = sum(_sizes(workload, n_ranks))
    held = (
        Allocation("parameters", "parameters", every * numerics.storage_bytes),
        Allocation("optimizer", "optimizer", every // n_ranks * numerics.optimizer_bytes),
    )
    return finished(engine, f"colossalai-{engine.stage}", held)


# Note [A flush copies its bucket five times]
# build_grad_in_bucket clones each gradient and clones each rank's slice of it; get_flatten_grad
# flattens rank by rank and then all ranks; the flat is divided by N in place. Five passes that read
# and write all of it, and one more over what is kept, when the reduced flat is copied back.
def _reduce(engine: Engine, bucket: Flush, after: int) -> int:
    """Flatten a bucket, reduce it, keep what this ZeRO stage keeps of it."""
    writer, numerics, k = engine.writer, engine.numerics, bucket.index
    elements, name = engine.buckets.elements[k], engine.buckets.names[k]
    own = elements if engine.stage == 1 else elements // engine.n_ranks
    sums, slices = (
        Allocation(f"averaged.{k}", "gradients", own * numerics.grad_bytes),
        f"slices.{k}",
    )
    first = sums.key not in engine.live
    rest = elements - own if first else elements
    flattened = writer.compute(
        Kind.FILL,
        name,
        after=(after,),
        memory_bytes=10 * elements * numerics.grad_bytes,
        elements=elements,
        dtype=numerics.grad_dtype,
        bucket=k,
        allocates=(
            Allocation(f"flat.{k}", "buckets", elements * numerics.reduce_bytes),
            Allocation(slices, "buckets", rest * numerics.grad_bytes),
            *((sums,) if first else ()),
        ),
        frees=take(engine, engine.buckets.pieces(bucket)),
    )
    engine.live.add(sums.key)
    kind = Kind.ALL_REDUCE if engine.stage == 1 else Kind.REDUCE_SCATTER
    reduced = reduction(engine, kind, k, flattened)
    return writer.compute(
        Kind.COPY,
        name,
        after=(reduced,),
        memory_bytes=2 * own * numerics.grad_bytes,
        stream=engine.stream(kind.value),
        bucket=k,
        frees=(f"flat.{k}", slices),
    )


def _update(engine: Engine) -> int:
    """float32 copies of this rank's gradients, their norm, OPT; only parameters with a gradient."""
    writer, numerics = engine.writer, engine.numerics
    own = sum(engine.buckets.elements) // engine.n_ranks
    if numerics.dtype == "float16":
        # The loss scaler asks all ranks whether any of them has an overflow.
        scalar(writer, "overflow", after=())
    copied: tuple[str, ...] = ()
    if numerics.grad_bytes != FLOAT32:
        copy = Allocation("master_gradients", "workspace", own * FLOAT32)
        moved = cast_bytes(own, numerics.grad_bytes)
        writer.compute(Kind.COPY, "master", memory_bytes=moved, allocates=(copy,))
        copied = (copy.key,)
    norm = gradient_norm(writer, own * numerics.grad_bytes, after=())
    sums = tuple(f"averaged.{k}" for k in range(len(engine.buckets.elements)))
    return writer.compute(
        Kind.OPTIMIZER,
        "",
        after=(norm,),
        memory_bytes=own * numerics.update_bytes,
        frees=(*copied, *take(engine, sums)),
    )


def _gather(engine: Engine, options: LowLevelOptions, updated: int) -> None:
    numel = _sizes(engine.workload, engine.n_ranks)
    updating = numbered.defined(engine.workload)
    engine.gathered = gather_updated(
        engine, [(i, numel[i]) for i in updating], options, after=updated
    )
    if options.overlap_allgather:
        # A loop reads its loss from the computing stream, which these gathers are not on.
        engine.writer.wait((updated,))
