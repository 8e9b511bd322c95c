"""The collectives of each rank, counted by kind, dtype and group size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from zerosim.kinds import COMMUNICATION
from zerosim.trace import Flag, Trace, flagged, of_kind

_KEYS: Final = ("rank", "kind", "dtype", "group_size")


@dataclass(frozen=True, slots=True)
class Tally:
    """`count` collectives of a sort; `elements` and `nbytes` are sums over them, of the full tensors."""

    kind: str
    dtype: str
    group_size: int
    count: int
    elements: int
    nbytes: int | None


def tally_collectives(trace: Trace) -> dict[int, tuple[Tally, ...]]:
    """The tallies of each rank, by kind, dtype, group size.

    Only collectives whose kind, size and group are all known; the others count as `unsized` in the
    quality report.
    """
    sizes = {group.name: group.size for group in trace.meta.groups}
    told = (
        trace.spans.filter(of_kind(COMMUNICATION) & ~flagged(Flag.UNFINISHED))
        .with_columns(
            pl.col("kind", "dtype").cast(pl.String),
            pl.col("group")
            .cast(pl.String)
            .replace_strict(sizes, default=None, return_dtype=pl.Int64)
            .alias("group_size"),
        )
        .drop_nulls(["dtype", "group_size", "elements"])
    )
    table = told.group_by(_KEYS).agg(
        count=pl.len(),
        elements=pl.col("elements").sum(),
        nbytes=pl.when(pl.col("nbytes").null_count() == 0).then(pl.col("nbytes").sum()),
    )
    found: dict[int, list[Tally]] = {rank: [] for rank in trace.ranks}
    for rank, *row in table.sort(_KEYS).iter_rows():
        found[rank].append(Tally(*row))
    return {rank: tuple(rows) for rank, rows in found.items()}
