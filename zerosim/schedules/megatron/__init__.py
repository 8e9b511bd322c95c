"""Megatron-LM's distributed optimizer: contiguous buffers in buckets, each rank owns a slice of every one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf, lcm
from typing import Final

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.partition import Partition, megatron_bucket_size
from zerosim.partition import megatron as laid_out
from zerosim.partition.styles import MEGATRON_END
from zerosim.plan import Allocation, Axis, Plan, PlanWriter
from zerosim.schedules import layers, numbered
from zerosim.schedules.megatron.options import MegatronOptions
from zerosim.schedules.norm import FLOAT32, cast_bytes, gradient_norm, scalar
from zerosim.schedules.passing import PASSING, passing, waiting
from zerosim.units import dtype_bytes
from zerosim.workload import Unit, Workload

_HIGH_BUSBW: Final = 2**16


@dataclass(slots=True)
class _Engine:
    """One rank's engine: what never changes, then what is live while the plan is written.

    `dtype`: of the gradient buffer; `numel`: elements of each parameter; `buckets`: of each bucket,
    padding included; `names`: how buckets are called; `bucket_of`: the bucket of a parameter. `gathers`: by bucket, its gather in this step, and
    `waited` those a forward has waited for. `reduced`: reduce-scatters of this step.
    """

    writer: PlanWriter
    workload: Workload
    n_ranks: int
    numerics: Numerics
    options: MegatronOptions
    dtype: str
    numel: tuple[int, ...]
    buckets: tuple[int, ...]
    names: tuple[str, ...]
    bucket_of: dict[int, int]
    uses: tuple[tuple[int, ...], ...]
    gathers: dict[int, int] = field(default_factory=dict)
    waited: set[int] = field(default_factory=set)
    reduced: list[int] = field(default_factory=list)

    @property
    def own(self) -> int:
        """Elements that a rank owns, padding included."""
        return sum(self.buckets) // self.n_ranks

    @property
    def width(self) -> int:
        """Bytes of one gradient in the buffer."""
        return dtype_bytes(self.dtype)


def megatron(
    workload: Workload, n_ranks: int, numerics: Numerics, options: MegatronOptions, steps: int = 1
) -> Plan:
    """The step of `use_distributed_optimizer`; gradients stay whole, in a buffer of their own."""
    engine = _engine(workload, n_ranks, numerics, options)
    writer, every = engine.writer, sum(engine.buckets)
    for writer.step in range(1, steps + 1):
        writer.micro_batch = 0
        _zero_gradients(engine)
        for writer.micro_batch in range(workload.micro_batches):
            _forward(engine)
            _backward(engine, last=writer.micro_batch == workload.micro_batches - 1)
        _update(engine)
    held = (
        Allocation("parameters", "parameters", every * numerics.storage_bytes),
        Allocation("gradients", "gradients", every * engine.width),
        Allocation("optimizer", "optimizer", engine.own * numerics.optimizer_bytes),
    )
    ops = layers.steps_end(writer.ops)
    # In the first step the forward finds parameters whole, and the backward counts gradients.
    steady = 2 if options.overlap_grad_reduce else 1
    return Plan("megatron", n_ranks, ops, (Axis("world", n_ranks),), held, steady)


def _engine(
    workload: Workload, n_ranks: int, numerics: Numerics, options: MegatronOptions
) -> _Engine:
    order, layout = numbered.listed(workload), _layout(workload, n_ranks, options)
    in_fp32 = options.grad_reduce_in_fp32
    if in_fp32 is None:
        in_fp32 = numerics.dtype == "bfloat16"
    members = tuple(tuple(order[m.parameter] for m in b.members) for b in layout.buffers)
    units = numbered.unit_names(workload)
    return _Engine(
        writer=PlanWriter(),
        workload=workload,
        n_ranks=n_ranks,
        numerics=numerics,
        options=options,
        dtype="float32" if in_fp32 else numerics.reduce_dtype,
        numel=tuple(p.numel for unit in workload.units for p in unit.parameters),
        buckets=tuple(buffer.elements for buffer in layout.buffers),
        names=tuple(numbered.label(units, held) for held in members),
        bucket_of={i: k for k, held in enumerate(members) for i in held},
        uses=numbered.used(workload),
    )


def megatron_padded(workload: Workload, n_ranks: int, _: Numerics, options: MegatronOptions) -> int:
    """Elements of the parameter buffer, starts and ends of its buckets padded."""
    return sum(buffer.elements for buffer in _layout(workload, n_ranks, options).buffers)


def _layout(workload: Workload, n_ranks: int, options: MegatronOptions) -> Partition:
    """The parameters, numbered as the model lists them, in buckets cut over the ranks."""
    size = inf
    if options.overlap_grad_reduce:
        size = options.bucket_size or megatron_bucket_size(n_ranks)
    padding = MEGATRON_END
    if options.pad_buckets_for_high_nccl_busbw:
        padding = lcm(padding, _HIGH_BUSBW)
    parameters = [p for unit in workload.units for p in unit.parameters]
    listed = Unit("model", tuple(parameters[i] for i in numbered.listed(workload)))
    return laid_out([listed], n_ranks, size, padding)


def _zero_gradients(engine: _Engine) -> None:
    """zero_grad_buffer, before anything else of a step."""
    engine.gathers.clear()
    engine.waited.clear()
    engine.reduced.clear()
    nbytes = sum(engine.buckets) * engine.width
    engine.writer.compute(Kind.OTHER, "zero_grad", name="zero_grad", memory_bytes=nbytes)


def _forward(engine: _Engine) -> None:
    writer = engine.writer
    gathers = engine.options.overlap_param_gather and writer.step > 1
    for layer, parameters in zip(engine.workload.layers, engine.uses, strict=True):
        needs = [
            _finish_gather(engine, bucket)
            for bucket in dict.fromkeys(engine.bucket_of[i] for i in parameters)
            if gathers and bucket not in engine.waited
        ]
        layers.forward(writer, layer, engine.numerics, after=needs)


def _finish_gather(engine: _Engine, bucket: int) -> int:
    """The computing stream waits for a bucket, and the next one (the bucket before it) is sent off."""
    if bucket not in engine.gathers:
        engine.gathers[bucket] = _gather(engine, bucket, "all_gather")
    engine.waited.add(bucket)
    following = bucket - 1
    if following >= 0 and following not in engine.gathers:
        engine.gathers[following] = _gather(engine, following, "all_gather")
    return engine.gathers[bucket]


def _gather(engine: _Engine, bucket: int, stream: str) -> int:
    return engine.writer.collective(
        Kind.ALL_GATHER,
        engine.names[bucket],
        elements=engine.buckets[bucket],
        dtype=engine.numerics.dtype,
        # NCCL's stream waits for what the computing stream has been given so far.
        after=layers.last_computed(engine.writer),
        stream=stream,
        bucket=bucket,
    )


def _backward(engine: _Engine, *, last: bool) -> None:
    writer = engine.writer
    # The first step only counts which gradients a bucket gets; its buckets are reduced at the end.
    early = engine.options.overlap_grad_reduce and writer.step > 1
    begun, completed = numbered.begun(engine.workload), numbered.completed(engine.workload)
    missing = Counter(engine.bucket_of[i] for done in completed for i in done)
    plan = zip(engine.workload.layers, begun, completed, strict=True)
    for layer, made, done in reversed(list(plan)):
        held = passing(made, done, engine.numel, engine.numerics.grad_bytes)
        b = layers.backward(writer, layer, engine.numerics, allocates=held)
        _accumulate(engine, b, layer.name, done, made)
        for i in done:
            bucket = engine.bucket_of[i]
            missing[bucket] -= 1
            if last and early and not missing[bucket]:
                _reduce(engine, bucket, "reduce_scatter")
    if last and not early:
        for bucket in range(len(engine.buckets)):
            _reduce(engine, bucket, "compute")


def _accumulate(
    engine: _Engine, after: int, layer: str, done: tuple[int, ...], made: tuple[int, ...]
) -> None:
    """main_grad.add_(grad): into the buffer, and the gradient is dropped."""
    frees = [waiting(i) for i in done if i not in made]
    if any(i in done for i in made):
        frees.append(PASSING)
    buckets = dict.fromkeys(engine.bucket_of[i] for i in done)
    for bucket in buckets:
        elements = sum(engine.numel[i] for i in done if engine.bucket_of[i] == bucket)
        # What a later micro-batch adds makes the buffer no fuller.
        first = engine.writer.micro_batch == 0
        engine.writer.compute(
            Kind.FILL if first else Kind.COPY,
            layer,
            after=(after,),
            memory_bytes=elements * (engine.numerics.grad_bytes + 2 * engine.width),
            elements=elements if first else None,
            dtype=engine.dtype if first else None,
            bucket=bucket if first else None,
            frees=tuple(frees) if bucket == [*buckets][-1] else (),
        )


def _reduce(engine: _Engine, bucket: int, stream: str) -> None:
    """The buffer's part is scaled by 1/N in place and reduce-scattered."""
    elements = engine.buckets[bucket]
    scaled = engine.writer.compute(
        Kind.COPY,
        engine.names[bucket],
        memory_bytes=2 * elements * engine.width,
        bucket=bucket,
    )
    reduced = engine.writer.collective(
        Kind.REDUCE_SCATTER,
        engine.names[bucket],
        elements=elements,
        dtype=engine.dtype,
        after=(scaled,),
        stream=stream,
        bucket=bucket,
    )
    engine.reduced.append(reduced)


def _update(engine: _Engine) -> None:
    """The norm, OPT on this rank's slices, a cast into its parameters, and (if not later) the gathers."""
    writer, numerics, own = engine.writer, engine.numerics, engine.own
    after = tuple(engine.reduced)
    frees: tuple[str, ...] = ()
    if engine.width != FLOAT32:
        held = Allocation("main_gradients", "workspace", own * FLOAT32)
        moved = cast_bytes(own, engine.width)
        copied = writer.compute(
            Kind.COPY, "main", after=after, memory_bytes=moved, allocates=(held,)
        )
        after, frees = (copied,), (held.key,)
    if numerics.dtype == "float16":
        after = (scalar(writer, "overflow", after=after),)
    norm = gradient_norm(writer, own * engine.width, after=after)
    nbytes = own * (numerics.update_bytes - numerics.reduce_bytes + engine.width)
    updated = writer.compute(Kind.OPTIMIZER, "", after=(norm,), memory_bytes=nbytes, frees=frees)
    cast = cast_bytes(own, numerics.param_bytes)
    writer.compute(Kind.COPY, "parameters", after=(updated,), memory_bytes=cast)
    if not engine.options.overlap_param_gather:
        for bucket in range(len(engine.buckets)):
            _gather(engine, bucket, "compute")
