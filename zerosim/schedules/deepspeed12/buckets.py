"""DeepSpeed's gradient hooks: gradients enter buckets, and a full one is reduced before the next begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zerosim.kinds import Kind
from zerosim.plan import Allocation, ByRank, PlanWriter
from zerosim.schedules.deepspeed12 import ipg
from zerosim.schedules.deepspeed12.layout import Group, Layout, by_rank, unequal
from zerosim.units import dtype_bytes


@dataclass(slots=True)
class Run:
    """A plan being written: what waits for what, and what is held at this point.

    `computed` and `reduced` are the last ops of the two streams, `blocked` what the next op of the
    compute stream waits for, `bucket` the one being filled, `held` what the epilogue frees.
    """

    layout: Layout
    writer: PlanWriter = field(default_factory=PlanWriter)
    computed: int = 0
    reduced: int | None = None
    blocked: tuple[int, ...] = ()
    bucket: ipg.Bucket | None = None
    held: list[str] = field(default_factory=list)

    @property
    def latest(self) -> tuple[int, ...]:
        """The last ops of both streams."""
        return (self.computed,) if self.reduced is None else (self.computed, self.reduced)

    def taken(self) -> tuple[int, ...]:
        """What the next op of the compute stream waits for; only that one does."""
        blocked, self.blocked = self.blocked, ()
        return blocked


def buffers(run: Run) -> tuple[Allocation, ...]:
    """The bucket buffers, allocated whole with the first gradient after an epilogue."""
    options = run.layout.options
    if not options.contiguous_gradients or run.held:
        return ()
    nbytes = options.reduce_bucket_size * run.layout.numerics.param_bytes
    made = tuple(Allocation(f"ipg.{i}", "buckets", nbytes) for i in range(1 + options.overlap_comm))
    run.held += [buffer.key for buffer in made]
    return made


def enter(run: Run, groups: tuple[Group, ...]) -> None:
    """Put gradients into their buckets; a full bucket is reduced before the next is begun."""
    of = run.layout
    for group in groups:
        if run.bucket is not None and run.bucket is not group.bucket:
            _reduce(run, run.bucket)
        run.bucket = group.bucket
        if group.bucket.large or not of.options.contiguous_gradients:
            run.held += group.keys
            continue
        run.computed = run.writer.compute(
            Kind.FILL,
            of.workload.layers[group.layer].name if of.in_backward else _label(of, group.bucket),
            after=run.taken(),
            memory_bytes=2 * group.elements * of.numerics.param_bytes,
            elements=group.elements,
            dtype=of.numerics.dtype,
            bucket=group.bucket.index,
            frees=group.keys,
        )


def _label(of: Layout, bucket: ipg.Bucket) -> str:
    first, last = (
        of.workload.layers[s.ready or 0].name for s in (bucket.slots[0], bucket.slots[-1])
    )
    return first if first == last else f"{first}-{last}"


def _reduce(run: Run, bucket: ipg.Bucket, *, final: bool = False) -> None:
    """The collectives of a bucket, each between the copies around it."""
    of, overlaps = run.layout, run.layout.options.overlap_comm
    if overlaps and run.reduced is not None and not of.synchronizes:
        # Compute waits for the reduction before this one: at most one is outstanding.
        run.blocked = (run.reduced,)
    reductions = of.reductions[bucket.index]
    for i, reduction in enumerate(reductions):
        if of.synchronizes:
            run.writer.wait(run.latest, _label(of, bucket))
        last = i == len(reductions) - 1
        run.reduced = _collective(run, bucket, reduction, last=last, final=final)
        if not overlaps:
            run.computed = run.reduced
    run.bucket = None


def _collective(
    run: Run, bucket: ipg.Bucket, reduction: ipg.Reduction, *, last: bool, final: bool
) -> int:
    """Slices are scaled and flattened, travel, and go back; returns the last op of the three."""
    flat = _flat(run.layout, reduction)
    entered = run.layout.options.contiguous_gradients and not bucket.large
    scaled = _copy(
        run,
        bucket,
        "flat",
        run.latest if run.layout.options.overlap_comm else run.taken(),
        2 * reduction.elements * run.layout.numerics.param_bytes + 2 * sum(a.nbytes for a in flat),
        fills=0 if entered else reduction.elements,
        allocates=flat,
    )
    travelled = run.writer.collective(
        reduction.kind,
        _label(run.layout, bucket),
        elements=reduction.elements,
        dtype=run.layout.dtype,
        after=(scaled,),
        bucket=bucket.index,
    )
    frees = tuple(allocation.key for allocation in flat)
    if not last:
        return _copy(run, bucket, "own", (travelled,), 0, frees=frees)
    kept = run.layout.kept[bucket.index]
    return _copy(
        run,
        bucket,
        "own",
        (travelled,),
        *by_rank({rank: 2 * nbytes for rank, nbytes in kept.items()}, run.layout.n_ranks),
        allocates=_new(run, bucket, kept),
        frees=(*frees, *_dropped(run, bucket, final=final)),
    )


def _flat(of: Layout, reduction: ipg.Reduction) -> tuple[Allocation, ...]:
    """What a reduction needs beside the bucket: a flat copy of several slices, a cast of them."""
    flat = Allocation("flat", "buckets", reduction.elements * of.numerics.param_bytes)
    cast = Allocation("cast", "buckets", reduction.elements * dtype_bytes(of.dtype))
    casts = of.dtype != of.numerics.dtype
    return (*((flat,) if reduction.flattened else ()), *((cast,) if casts else ()))


def _copy(
    run: Run,
    bucket: ipg.Bucket,
    name: str,
    after: tuple[int, ...],
    memory_bytes: int,
    memory_bytes_by_rank: ByRank | None = None,
    *,
    fills: int = 0,
    allocates: tuple[Allocation, ...] = (),
    frees: tuple[str, ...] = (),
) -> int:
    """A copy before or after a reduction; `fills`: elements that are in no bucket until then."""
    label = _label(run.layout, bucket)
    return run.writer.compute(
        Kind.FILL if fills else Kind.COPY,
        label,
        name=name + label,
        after=after,
        memory_bytes=memory_bytes,
        memory_bytes_by_rank=memory_bytes_by_rank,
        elements=fills or None,
        dtype=run.layout.numerics.dtype if fills else None,
        bucket=bucket.index,
        allocates=allocates,
        frees=frees,
        stream="reduction" if run.layout.options.overlap_comm else "compute",
    )


def _new(run: Run, bucket: ipg.Bucket, kept: Mapping[int, int]) -> tuple[Allocation, ...]:
    """What a rank keeps of a bucket; float32 accumulation adds to what the first micro-batch left."""
    of = run.layout
    again = of.stage > 1 and run.writer.micro_batch > 0
    if not kept or (again and of.compact):
        return ()
    name = "again" if again else "partition"
    return (unequal(f"{name}.{bucket.index}", kept, of.n_ranks),)


def _dropped(run: Run, bucket: ipg.Bucket, *, final: bool) -> tuple[str, ...]:
    """What goes once a bucket is reduced: ZeRO-2's gradients that never were in a bucket buffer.

    Without overlap everything goes with the `final` bucket; else once the host has seen its end.
    """
    prefix = f"gradient.{bucket.index}."
    if final and not run.layout.options.overlap_comm:
        prefix = ""
    elif run.layout.stage == 1:
        return ()
    gone = tuple(key for key in run.held if key.startswith(prefix))
    run.held = [key for key in run.held if not key.startswith(prefix)]
    return gone


def epilogue(run: Run) -> None:
    """Reduce the last bucket, drop the buffers, and add to earlier micro-batches' gradients."""
    of = run.layout
    if run.bucket is not None:
        _reduce(run, run.bucket, final=True)
    if of.options.overlap_comm:
        run.writer.wait(run.latest, frees=tuple(run.held))
        run.blocked = ()
    run.held = []
    run.reduced = None
    if of.stage > 1 and run.writer.micro_batch > 0 and not of.compact:
        _accumulate(run)


def _accumulate(run: Run) -> None:
    of = run.layout
    total: dict[int, int] = {}
    for kept in of.kept:
        for rank, nbytes in kept.items():
            total[rank] = total.get(rank, 0) + 3 * nbytes
    most, runs = by_rank(total, of.n_ranks)
    run.computed = run.writer.compute(
        Kind.COPY,
        "",
        name="accumulate",
        after=run.taken(),
        memory_bytes=most,
        memory_bytes_by_rank=runs,
        frees=tuple(f"again.{i}" for i, kept in enumerate(of.kept) if kept),
    )
