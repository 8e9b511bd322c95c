"""Runs as rows to read: ops one by one, collectives by sort, null where the run does not say."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

import polars as pl

from zerosim.analysis.busy import busy_whole
from zerosim.analysis.skew import last_arrivals
from zerosim.kinds import COMMUNICATION
from zerosim.trace import Flag, Trace, flagged, of_kind

MAX_OPS: Final = 5_000
Row = dict[str, Any]


def operations(trace: Trace, rank: int) -> list[Row]:
    """The first MAX_OPS spans of `rank`, in issue order; times in ns since the run's start."""
    begin = trace.begin_ns
    mine = last_arrivals(trace.spans).filter(pl.col("rank") == rank).head(MAX_OPS)
    return mine.select(
        pl.col("name", "kind", "stream", "unit").cast(pl.String),
        pl.col("step", "micro_batch"),
        issued_ns=pl.col("issued_ns") - begin,
        start_ns=pl.col("start_ns") - begin,
        took_ns=_timed(pl.col("end_ns") - pl.col("start_ns")),
        waited_ns=pl.when(pl.col("collective").is_not_null()).then(
            _timed(pl.col("arrived_ns") - pl.col("start_ns"))
        ),
        nbytes=pl.col("nbytes"),
        wire_bytes=pl.col("wire_bytes"),
        dtype=pl.col("dtype").cast(pl.String),
        moves=of_kind(COMMUNICATION),
    ).to_dicts()


def collectives(trace: Trace, rank: int) -> list[Row]:
    """What `rank` communicated, a row a kind, dtype and group: how often, how much, how fast.

    `busbw` is bytes a second on the wire while transferring: wire bytes by transfer time.
    """
    sizes = {group.name: group.size for group in trace.meta.groups}
    moved = last_arrivals(trace.spans).filter((pl.col("rank") == rank) & of_kind(COMMUNICATION))
    known = ~flagged(Flag.UNTIMED)
    table = (
        moved.with_columns(pl.col("kind", "dtype", "group").cast(pl.String))
        .group_by("kind", "dtype", "group")
        .agg(
            count=pl.len(),
            nbytes=_all_or_none("nbytes"),
            wire_bytes=_all_or_none("wire_bytes"),
            transfer_ns=pl.when(known.all()).then((pl.col("end_ns") - pl.col("arrived_ns")).sum()),
            waited_ns=pl.when(known.all()).then((pl.col("arrived_ns") - pl.col("start_ns")).sum()),
        )
        .with_columns(
            ranks=pl.col("group").replace_strict(sizes, default=None, return_dtype=pl.Int64),
            busbw=pl.when(pl.col("transfer_ns") > 0).then(
                pl.col("wire_bytes") * 1e9 / pl.col("transfer_ns")
            ),
        )
    )
    return table.sort("kind", "dtype", "group", nulls_last=True).to_dicts()


def _all_or_none(column: str) -> pl.Expr:
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum()).alias(column)


def _timed(duration: pl.Expr) -> pl.Expr:
    return pl.when(~flagged(Flag.UNTIMED)).then(duration)


def span_facts(trace: Trace, index: int) -> Row | None:
    """Row `index` of the span table with times as durations; None if there is no such row."""
    if not 0 <= index < trace.spans.height:
        return None
    row = trace.spans.row(index, named=True)
    together = members(trace, index)
    arrived = max((m["arrived_ns"] for m in together), default=row["start_ns"] - trace.begin_ns)
    timed = not row["flags"] & int(Flag.UNTIMED)
    return {
        **row,
        "start_ns": row["start_ns"] - trace.begin_ns,
        "end_ns": row["end_ns"] - trace.begin_ns,
        "issued_ns": None if row["issued_ns"] is None else row["issued_ns"] - trace.begin_ns,
        "took_ns": row["end_ns"] - row["start_ns"] if timed else None,
        "waited_ns": max(0, arrived - (row["start_ns"] - trace.begin_ns))
        if together and timed
        else None,
    }


def members(trace: Trace, index: int) -> list[Row]:
    """All ranks' parts of the collective of row `index`: when each arrived, how long it waited."""
    collective = trace.spans["collective"][index]
    if collective is None:
        return []
    begin = trace.begin_ns
    rows = last_arrivals(trace.spans.filter(pl.col("collective") == collective))
    return (
        rows.select(
            "rank",
            arrived_ns=pl.col("start_ns") - begin,
            waited_ns=pl.col("arrived_ns") - pl.col("start_ns"),
            transfer_ns=pl.col("end_ns") - pl.col("arrived_ns"),
            end_ns=pl.col("end_ns") - begin,
        )
        .sort("rank")
        .head(MAX_OPS)
        .to_dicts()
    )


def window(trace: Trace, start_ns: int, end_ns: int) -> list[Row]:
    """What each rank did between two times since the run's start: union times, by `busy_whole`."""
    begin = trace.begin_ns
    low, high = start_ns + begin, end_ns + begin
    inside = trace.spans.filter((pl.col("end_ns") > low) & (pl.col("start_ns") < high))
    cut = inside.with_columns(
        start_ns=pl.max_horizontal("start_ns", pl.lit(low)),
        end_ns=pl.min_horizontal("end_ns", pl.lit(high)),
    )
    busy = busy_whole(replace(trace, spans=cut))
    return [{"rank": rank, "window_ns": high - low, **asdict(b)} for rank, b in busy.items()]


def matched(residuals: list[Row]) -> list[Row]:
    """The ops of two runs that are the same (`zerosim.analysis.comparison`), a row a kind.

    Sums and medians are over units and ranks; `difference` is the second run's sum over the first's.
    """
    if not residuals:
        return []
    table = (
        pl.DataFrame(residuals)
        .group_by("kind")
        .agg(
            count=pl.len(),
            a_sum=pl.col("a_ns").sum(),
            b_sum=pl.col("b_ns").sum(),
            a_median=pl.col("a_ns").median().round().cast(pl.Int64),
            b_median=pl.col("b_ns").median().round().cast(pl.Int64),
        )
        .with_columns(
            delta_ns=pl.col("b_sum") - pl.col("a_sum"),
            ratio=pl.when(pl.col("a_sum") > 0).then(pl.col("b_sum") / pl.col("a_sum")),
        )
    )
    return table.sort(pl.col("delta_ns").abs(), "kind", descending=[True, False]).to_dicts()
