"""What two traces have in common: their rows as plain records, whatever their collectives are numbered."""

from __future__ import annotations

from typing import Any

import polars as pl

from zerosim.trace import Trace


def table(trace: Trace) -> list[dict[str, Any]]:
    """The rows of a trace; ids of collectives are numbered in the order in which they appear."""
    seen = trace.spans["collective"].drop_nulls().unique(maintain_order=True).to_list()
    numbered = {identity: place for place, identity in enumerate(seen)}
    text = pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    rows = trace.spans.with_columns(text).sort("rank", maintain_order=True).to_dicts()
    return [row | {"collective": numbered.get(row["collective"])} for row in rows]


def counters(trace: Trace) -> list[tuple[Any, ...]]:
    """The samples of a trace, rank by rank."""
    text = trace.samples.with_columns(pl.col("counter").cast(pl.String))
    return text.sort("rank", maintain_order=True).rows()
