"""ColossalAI's Gemini: parameters in chunks, gathered for an op, given up when the next one begins."""

from __future__ import annotations

from collections import Counter

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, Axis, Plan, PlanWriter
from zerosim.schedules import layers, numbered
from zerosim.schedules.gemini.chunks import Chunks, chunked
from zerosim.schedules.gemini.engine import Engine, after_layer, before_layer, finish
from zerosim.schedules.gemini.options import GeminiOptions
from zerosim.schedules.norm import cast_bytes, gradient_norm, scalar
from zerosim.workload import Workload


def gemini(
    workload: Workload, n_ranks: int, numerics: Numerics, options: GeminiOptions, steps: int = 1
) -> Plan:
    """Gemini with the static policy; a layer is one op that needs all chunks of its parameters."""
    engine = _engine(workload, n_ranks, numerics, options)
    writer = engine.writer
    for writer.step in range(1, steps + 1):
        for writer.micro_batch in range(workload.micro_batches):
            _micro_batch(engine)
        _update(engine)
    every = sum(engine.held(chunk) for chunk in engine.chunks.chunks)
    held = (
        Allocation("parameters", "parameters", every * numerics.storage_bytes),
        Allocation("optimizer", "optimizer", every * numerics.optimizer_bytes),
    )
    ops = layers.steps_end(writer.ops)
    # Prefetching needs the order that the first backward has shown.
    steady = 2 if options.max_prefetch else 1
    return Plan("gemini", n_ranks, ops, (Axis("world", n_ranks),), held, steady)


def _engine(workload: Workload, n_ranks: int, numerics: Numerics, options: GeminiOptions) -> Engine:
    uses, chunks = numbered.used(workload), _chunks(workload, n_ranks, options)
    chunk_of = {i: chunk.index for chunk in chunks.chunks for i in chunk.parameters}
    done = numbered.completed(workload)
    needs = tuple(tuple(dict.fromkeys(chunk_of[i] for i in layer)) for layer in uses)
    units = numbered.unit_names(workload)
    return Engine(
        writer=PlanWriter(),
        n_ranks=n_ranks,
        numerics=numerics,
        options=options,
        workload=workload,
        chunks=chunks,
        # Without its own gradient chunks the second micro-batch would find gradients for parameters.
        reuses=not options.enable_gradient_accumulation and workload.micro_batches == 1,
        names=tuple(numbered.label(units, chunk.parameters) for chunk in chunks.chunks),
        numel=_numel(workload),
        chunk_of=chunk_of,
        needs=needs,
        made=numbered.begun(workload),
        done=done,
        expected=Counter(chunk_of[i] for completed in done for i in completed),
    )


def gemini_padded(workload: Workload, n_ranks: int, _: Numerics, options: GeminiOptions) -> int:
    """Elements of all chunks, what is unused in them included."""
    return sum(chunk.elements for chunk in _chunks(workload, n_ranks, options).chunks)


def _chunks(workload: Workload, n_ranks: int, options: GeminiOptions) -> Chunks:
    numel, order = _numel(workload), numbered.listed(workload)
    return chunked([numel[i] for i in order], n_ranks, options).numbered(order)


def _numel(workload: Workload) -> tuple[int, ...]:
    return tuple(p.numel for unit in workload.units for p in unit.parameters)


def _micro_batch(engine: Engine) -> None:
    writer, numerics = engine.writer, engine.numerics
    place = 0
    for i, layer in enumerate(engine.workload.layers):
        after = before_layer(engine, i, place)
        layers.forward(writer, layer, numerics, after=after)
        place += 1
    for i, layer in reversed(list(enumerate(engine.workload.layers))):
        after = before_layer(engine, i, place)
        b = layers.backward(writer, layer, numerics, after=after, allocates=engine.gradients(i))
        after_layer(engine, i, b)
        place += 1
    finish(engine)


def _update(engine: Engine) -> None:
    """Overflow and norm where they are asked for, OPT on what a rank holds, a cast into its chunks."""
    writer, numerics = engine.writer, engine.numerics
    own = sum(engine.held(chunk) for chunk in engine.chunks.chunks)
    after: tuple[int, ...] = ()
    if numerics.dtype == "float16":
        after = (scalar(writer, "overflow", after=after),)
    if engine.options.max_norm:
        after = (gradient_norm(writer, own * numerics.param_bytes, after=after),)
    updated = writer.compute(
        Kind.OPTIMIZER,
        "",
        after=after,
        memory_bytes=own * numerics.update_bytes,
        frees=tuple(sorted(engine.sums)),
    )
    engine.sums.clear()
    cast = cast_bytes(own, numerics.param_bytes)
    writer.compute(Kind.COPY, "chunks", after=(updated,), memory_bytes=cast)
