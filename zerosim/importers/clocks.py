"""The clocks of the ranks, compared and moved together by the ends of their collectives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.matching import ALL_WAIT, apart_ns
from zerosim.trace import Clock, Flag, Trace, flagged, of_kind
from zerosim.units import format_ns


@dataclass(frozen=True, slots=True)
class Estimate:
    """What to add to each rank's times, ns, so that the ends of collectives coincide.

    `error_ns`: 19 of 20 ends are at most so far from the middle of their collective then.
    """

    moves: tuple[tuple[int, int], ...] = ()
    error_ns: int | None = None


def compare_clocks(spans: pl.DataFrame) -> Estimate:
    """How far the ranks of `spans` (columns `rank`, `collective`, `kind`, `end_ns`, `flags`) are apart.

    The lowest rank stays; each other one is moved by the median over the collectives that it shares
    with ranks already placed. A rank that shares none has no estimate.
    """
    timed = of_kind(ALL_WAIT) & ~flagged(Flag.UNTIMED | Flag.UNFINISHED)
    ends = (
        spans.filter(pl.col("collective").is_not_null() & timed)
        .group_by("collective", "rank")
        .agg(pl.col("end_ns").max())
        .filter(pl.len().over("collective") > 1)
        .with_columns(pl.col("end_ns") - pl.col("end_ns").min())  # small enough for floats
    )
    first = ends["rank"].min()
    if not isinstance(first, int):
        return Estimate()
    moves = {first: 0}
    while added := _next_moves(ends, moves):
        moves |= added
    return Estimate(tuple(sorted(moves.items())), _error(ends, moves))


def _next_moves(ends: pl.DataFrame, moves: dict[int, int]) -> dict[int, int]:
    placed = _table(moves)
    found = (
        ends.join(placed, on="rank", how="anti")
        .join(_middles(ends, placed), on="collective")
        .group_by("rank")
        .agg(move=(pl.col("middle") - pl.col("end_ns")).median())
    )
    return {rank: round(move) for rank, move in found.iter_rows()}


def _middles(ends: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    moved = ends.join(placed, on="rank")
    middle = (pl.col("end_ns") + pl.col("move")).median()
    return moved.group_by("collective").agg(middle=middle)


def _error(ends: pl.DataFrame, moves: dict[int, int]) -> int | None:
    placed = _table(moves)
    far = (
        ends.join(placed, on="rank")
        .join(_middles(ends, placed), on="collective")
        .select((pl.col("end_ns") + pl.col("move") - pl.col("middle")).abs())
        .to_series()
        .quantile(0.95)
    )
    return None if far is None else round(far)


def _table(moves: dict[int, int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"rank": list(moves), "move": list(moves.values())},
        schema={"rank": pl.Int32, "move": pl.Int64},
    )


def align(trace: Trace) -> Trace:
    """`trace` with the clocks of its ranks moved together as `Clock.offsets_ns` says.

    Raises TraceFileError if no collective tells how far they are apart.
    """
    clock = trace.meta.clock
    if len(trace.ranks) <= 1 or clock.corrected:
        return trace
    moves = dict(clock.offsets_ns)
    alone = sorted(set(trace.ranks) - set(moves))
    if alone:
        raise TraceFileError(
            f"rank {alone[0]} shares no timed collective with the others:"
            " their clocks cannot be compared; import without --align-clocks"
        )
    by = pl.col("rank").replace_strict(moves, default=0, return_dtype=pl.Int64)
    spans = trace.spans.with_columns(pl.col("issued_ns", "start_ns", "end_ns") + by)
    estimate, apart = compare_clocks(spans), apart_ns(spans, spans["collective"])
    largest = format_ns(max(map(abs, moves.values())))
    quality = trace.meta.quality
    warning = f"the clocks of the ranks were moved by up to {largest}, to where collectives end"
    return replace(
        trace,
        spans=spans,
        samples=trace.samples.with_columns(pl.col("time_ns") + by),
        meta=replace(
            trace.meta,
            clock=Clock(not apart, estimate.error_ns, clock.offsets_ns, corrected=True),
            steps=tuple(
                replace(
                    w,
                    start_ns=w.start_ns + moves.get(w.rank, 0),
                    end_ns=w.end_ns + moves.get(w.rank, 0),
                )
                for w in trace.meta.steps
            ),
            quality=replace(quality, warnings=(*quality.warnings, warning)),
        ),
    )
