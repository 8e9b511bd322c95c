"""Who kept whom waiting: how long each rank waited in collectives for the last one to arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zerosim.kinds import COMMUNICATION
from zerosim.trace import Flag, Trace, flagged, of_kind


@dataclass(frozen=True, slots=True)
class Skew:
    """Waiting summed over the `n` collectives in which all `ranks` took part.

    `aligned`: the ranks' clocks can be compared and there is something to compare; if not, all
    that follows is unknown. `straggler`: the rank that waits least, None if none does less than
    all others. `arrived_last_count`: how often each came last; ties of all count for nobody.
    """

    aligned: bool
    n: int
    ranks: tuple[int, ...]
    wait_ns_per_rank: tuple[int, ...] | None = None
    arrived_last_count: tuple[int, ...] | None = None
    straggler: int | None = None


def measure_skew(trace: Trace) -> Skew:
    """The skew of the ranks that have rows of their own."""
    ranks = trace.ranks
    arrivals = _arrivals(trace, len(ranks))
    n = len(arrivals)
    if not trace.meta.clock.aligned or not n:
        return Skew(False, n, ranks)
    wait = arrivals.max(axis=1, keepdims=True) - arrivals
    apart = wait.max(axis=1) > 0
    last = np.bincount(arrivals[apart].argmax(axis=1), minlength=len(ranks))
    total = wait.sum(axis=0)
    return Skew(True, n, ranks, _ints(total), _ints(last), _straggler(ranks, total))


def last_arrivals(spans: pl.DataFrame) -> pl.DataFrame:
    """`spans` with `arrived_ns`: when the last member of a span's collective came.

    The span's own start where it is no collective, or is the only one known of it; never after its end.
    """
    last = pl.col("start_ns").max().over("collective")
    return spans.with_columns(
        arrived_ns=pl.when(pl.col("collective").is_null())
        .then(pl.col("start_ns"))
        .otherwise(pl.min_horizontal(last, "end_ns"))
    )


def _arrivals(trace: Trace, n_ranks: int) -> NDArray[np.int64]:
    """Start times, one row a collective of all ranks, one column a rank."""
    rows = trace.spans.filter(
        pl.col("collective").is_not_null()
        & of_kind(COMMUNICATION)
        & ~flagged(Flag.UNTIMED | Flag.UNFINISHED)
    ).select("collective", "rank", "start_ns")
    whole = (pl.len().over("collective") == n_ranks) & (
        pl.col("rank").n_unique().over("collective") == n_ranks
    )
    table = rows.filter(whole).sort("collective", "rank")
    return table["start_ns"].to_numpy().reshape(-1, max(n_ranks, 1))


def _straggler(ranks: tuple[int, ...], wait: NDArray[np.int64]) -> int | None:
    least = np.flatnonzero(wait == wait.min())
    return ranks[int(least[0])] if len(least) < len(ranks) else None


def _ints(values: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)
