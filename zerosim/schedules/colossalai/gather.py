"""After the update every parameter that was updated is gathered: in buckets, or each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zerosim.kinds import Kind
from zerosim.plan import Allocation
from zerosim.schedules import numbered
from zerosim.schedules.colossalai.engine import Engine
from zerosim.schedules.colossalai.options import LowLevelOptions
from zerosim.schedules.norm import cast_bytes

Sized = tuple[int, int]
"""A parameter and its padded elements."""


def gather_updated(
    engine: Engine, updated: Sequence[Sized], options: LowLevelOptions, *, after: int
) -> dict[int, int]:
    """AG of the updated parameters; returns what the next use of each waits for."""
    waits: dict[int, int] = {}
    if options.overlap_allgather:
        for sized in updated:
            waits[sized[0]] = _gather(engine, [sized], after, stream="all_gather")
        return waits
    for members, alone in batches(updated, options.bucket_elements, engine.n_ranks):
        op = _gather(engine, members, after, stream="compute", writes_back=not alone)
        waits |= dict.fromkeys((i for i, _ in members), op)
    return waits


def batches(updated: Sequence[Sized], cap: int, n_ranks: int) -> Iterator[tuple[list[Sized], bool]]:
    """TensorBucket: slices add up to `cap` elements a rank; one larger than that goes alone, at once.

    Each batch comes with whether it is such a lone parameter.
    """
    held: list[Sized] = []
    for sized in updated:
        own = sized[1] // n_ranks
        if own > cap:
            yield [sized], True
            continue
        if held and sum(n for _, n in held) // n_ranks + own > cap:
            yield held, False
            held = []
        held.append(sized)
    if held:
        yield held, False


def _gather(
    engine: Engine, members: list[Sized], after: int, *, stream: str, writes_back: bool = False
) -> int:
    """The updated slices cast and flattened, gathered, and (from a bucket) written back."""
    writer, numerics = engine.writer, engine.numerics
    elements = sum(n for _, n in members)
    own, width = elements // engine.n_ranks, numerics.param_bytes
    name = numbered.label(numbered.unit_names(engine.workload), [i for i, _ in members])
    key = f"gather.{writer.step}.{members[0][0]}"
    held = own + elements if writes_back else own
    cast = writer.compute(
        Kind.COPY,
        name,
        after=(after,),
        memory_bytes=cast_bytes(own, width) + (2 * own * width if writes_back else 0),
        allocates=(Allocation(key, "buckets", held * width),),
    )
    gathered = writer.collective(
        Kind.ALL_GATHER,
        name,
        elements=elements,
        dtype=numerics.dtype,
        after=(cast,),
        stream=stream,
        frees=() if writes_back else (key,),
    )
    if not writes_back:
        return gathered
    return writer.compute(
        Kind.COPY, name, after=(gathered,), memory_bytes=4 * elements * width, frees=(key,)
    )
