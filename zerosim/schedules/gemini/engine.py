"""One rank's Gemini while its plan is written: what is gathered, given up, prefetched and reduced."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, PlanWriter
from zerosim.schedules.gemini.chunks import Chunk, Chunks
from zerosim.schedules.gemini.options import GeminiOptions
from zerosim.schedules.layers import last_computed
from zerosim.schedules.passing import PASSING, passing, waiting
from zerosim.workload import Workload


@dataclass(slots=True)
class Engine:
    """What never changes, then what is live.

    `reuses`: gradients overwrite the parameters of their chunk. `needs`: per layer, its chunks;
    `made`, `done`: per layer, the parameters whose gradients its backward makes and completes;
    `expected`: per chunk, how many gradients it gets.
    `accessed`: gathered chunks; `fetching`: those on their way, with the gather; `arrived`: per chunk,
    gradients in it; `sums`: keys of the reduced gradients; `reductions` of this micro-batch;
    `warm`: a backward has shown the order.
    """

    writer: PlanWriter
    n_ranks: int
    numerics: Numerics
    options: GeminiOptions
    workload: Workload
    chunks: Chunks
    reuses: bool
    names: tuple[str, ...]
    numel: tuple[int, ...]
    chunk_of: dict[int, int]
    needs: tuple[tuple[int, ...], ...]
    made: tuple[tuple[int, ...], ...]
    done: tuple[tuple[int, ...], ...]
    expected: dict[int, int]
    accessed: set[int] = field(default_factory=set)
    fetching: dict[int, int] = field(default_factory=dict)
    arrived: dict[int, int] = field(default_factory=dict)
    sums: set[str] = field(default_factory=set)
    reductions: list[int] = field(default_factory=list)
    warm: bool = False

    def held(self, chunk: Chunk) -> int:
        """Elements of a chunk that a rank holds throughout."""
        return chunk.elements if self.chunks.keep_gathered else chunk.elements // self.n_ranks

    def nbytes(self, elements: int) -> int:
        """Bytes of elements in a chunk."""
        return elements * self.numerics.param_bytes

    def gradients(self, layer: int) -> tuple[Allocation, ...]:
        """What a layer's backward makes, before it is copied into chunks."""
        width = self.numerics.grad_bytes
        return passing(self.made[layer], self.done[layer], self.numel, width)


def before_layer(engine: Engine, layer: int, place: int) -> tuple[int, ...]:
    """The pre-op hook: give up idle chunks, gather what is missing, prefetch; returns what to wait for.

    `place` counts the ops of this forward and backward.
    """
    needs = engine.needs[layer]
    waits = tuple(engine.fetching.pop(chunk) for chunk in needs if chunk in engine.fetching)
    _give_up(engine, needs)
    for chunk in needs:
        if chunk not in engine.accessed:
            _gather(engine, chunk, "compute")
    if engine.warm:
        _prefetch(engine, place)
    return waits


def _give_up(engine: Engine, needs: tuple[int, ...]) -> None:
    """The static policy: idle chunks go until what stays is the share that need not be sharded."""
    if engine.chunks.keep_gathered:
        return
    every = sum(chunk.elements for chunk in engine.chunks.chunks)
    may_stay = every * (1 - engine.options.shard_param_frac)
    idle = [
        chunk
        for chunk in sorted(engine.accessed)
        if chunk not in needs
        and chunk not in engine.fetching
        and not _holds_gradients(engine, chunk)
    ]
    gathered = sum(engine.chunks.chunks[chunk].elements for chunk in idle)
    for chunk in idle:
        if gathered <= may_stay:
            break
        _scatter(engine, chunk)
        gathered -= engine.chunks.chunks[chunk].elements


def _holds_gradients(engine: Engine, chunk: int) -> bool:
    return engine.reuses and engine.arrived.get(chunk, 0) > 0


def _scatter(engine: Engine, chunk: int) -> None:
    """Keep this rank's shard of a chunk and drop the rest."""
    engine.accessed.discard(chunk)
    shard = engine.nbytes(engine.held(engine.chunks.chunks[chunk]))
    engine.writer.compute(
        Kind.COPY,
        engine.names[chunk],
        memory_bytes=2 * shard,
        bucket=chunk,
        frees=_gathered(engine, chunk),
    )


def _gathered(engine: Engine, chunk: int) -> tuple[str, ...]:
    return () if engine.chunks.keep_gathered else (f"gathered.{chunk}",)


def _gather(engine: Engine, chunk: int, stream: str, after: tuple[int, ...] = ()) -> int | None:
    """Access a chunk; only one that is not kept gathered travels. Its shard becomes a part of it."""
    engine.accessed.add(chunk)
    if engine.chunks.keep_gathered:
        return None
    whole = engine.chunks.chunks[chunk]
    grows = engine.nbytes(whole.elements - engine.held(whole))
    return engine.writer.collective(
        Kind.ALL_GATHER,
        engine.names[chunk],
        elements=whole.elements,
        dtype=engine.numerics.dtype,
        after=after,
        stream=stream,
        bucket=chunk,
        allocates=(Allocation(f"gathered.{chunk}", "gathered", grows),),
    )


def _prefetch(engine: Engine, place: int) -> None:
    """Gather the next chunks of the recorded order, as long as fewer than max_prefetch are under way."""
    may = engine.options.max_prefetch - len(engine.fetching)
    order = [*engine.needs, *reversed(engine.needs)]
    ahead = dict.fromkeys(chunk for needs in order[place + 1 :] for chunk in needs)
    wanted = [chunk for chunk in ahead if chunk not in engine.accessed]
    # The prefetching stream waits for what the computing stream has been given so far.
    after = last_computed(engine.writer)
    for chunk in wanted[: max(may, 0)]:
        gather = _gather(engine, chunk, "all_gather", after)
        if gather is not None:
            engine.fetching[chunk] = gather


def after_layer(engine: Engine, layer: int, backward: int) -> None:
    """The gradient hooks: each gradient goes into its chunk; a chunk that has all is reduced."""
    done = engine.done[layer]
    if not done:
        return
    made = engine.made[layer]
    last = max((i for i, parameter in enumerate(done) if parameter in made), default=None)
    place = 0
    for chunk, group in groupby(done, key=engine.chunk_of.__getitem__):
        filled = tuple(group)
        place += len(filled)
        frees = [waiting(i) for i in filled if i not in made]
        if last is not None and place - len(filled) <= last < place:
            frees.append(PASSING)
        elements = sum(engine.numel[i] for i in filled)
        opens = not engine.reuses and not engine.arrived.get(chunk)
        copied = engine.writer.compute(
            Kind.FILL,
            engine.workload.layers[layer].name,
            after=(backward,),
            memory_bytes=2 * engine.nbytes(elements),
            elements=elements,
            dtype=engine.numerics.dtype,
            bucket=chunk,
            allocates=(_opened(engine, chunk),) if opens else (),
            frees=tuple(frees),
        )
        engine.arrived[chunk] = engine.arrived.get(chunk, 0) + len(filled)
        if engine.arrived[chunk] == engine.expected[chunk]:
            _reduce(engine, chunk, copied)


def _opened(engine: Engine, chunk: int) -> Allocation:
    """A gradient chunk, whole, with the first gradient in it."""
    nbytes = engine.nbytes(engine.chunks.chunks[chunk].elements)
    return Allocation(f"gradients.{chunk}", "buckets", nbytes)


def _reduce(engine: Engine, chunk: int, after: int) -> None:
    """RS of a chunk (AR if it is kept gathered); it is given up with that."""
    kind = Kind.ALL_REDUCE if engine.chunks.keep_gathered else Kind.REDUCE_SCATTER
    whole, key = engine.chunks.chunks[chunk], f"sums.{chunk}"
    kept: tuple[Allocation, ...] = ()
    frees = _gathered(engine, chunk)
    if not engine.reuses:
        frees = (f"gradients.{chunk}",)
        if key not in engine.sums:
            kept = (Allocation(key, "gradients", engine.nbytes(engine.held(whole))),)
            engine.sums.add(key)
    reduced = engine.writer.collective(
        kind,
        engine.names[chunk],
        elements=whole.elements,
        dtype=engine.numerics.dtype,
        after=(after,),
        stream=kind.value if engine.options.enable_async_reduce else "compute",
        bucket=chunk,
        allocates=kept,
        frees=frees,
    )
    engine.reductions.append(reduced)
    engine.arrived[chunk] = 0
    if engine.reuses:
        engine.accessed.discard(chunk)
    elif chunk in engine.accessed:
        _scatter(engine, chunk)


def finish(engine: Engine) -> None:
    """After a backward the host waits for its reductions; the order is known from now on."""
    if engine.options.enable_async_reduce:
        engine.writer.wait(engine.reductions)
    engine.reductions.clear()
    engine.warm = engine.options.max_prefetch > 0
