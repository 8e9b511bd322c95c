"""A run as the browser's timeline reads it: columns of spans and samples as bytes, the rest as JSON.

# Note [spans.bin]
Little-endian; a header of 32 bytes, then whole columns, longest elements first, so that every
column is aligned for a typed array. N spans, R rows, C collectives; sorted by (row, start).
    header      magic `ZSPN`, u32 version, N, R, C, flags (1 = wide), 8 bytes of zeros
    start       f64[N]  ns since the run's `base_ns`; exact, as no run here lasts 2^53 ns
    transfer    f64[C]  when the last member of the collective arrived; NaN = unknown
    duration    u32[N]  ns, exact; f64 if wide
    lead        i32[N]  start - issued, ns; -2^31 = unknown; f64 with NaN if wide
    rowOffsets  u32[R+1]  spans of row r stand from rowOffsets[r] to rowOffsets[r+1]
    index       u32[N]  row of the Trace's span table
    collective  i32[N]  0..C-1, -1 = none
    op          u32[N]  position in the JSON's `ops`
    kind, flags u8[N]   position in `kinds`; zerosim.trace.Flag
samples.bin: magic `ZSMP`, u32 version, M, 4 bytes of zeros, time f64[M], value f64[M].
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
import polars as pl
from numpy.typing import NDArray

from zerosim.analysis.rows import Choice, Chosen, RowGroup, RowTable, assign_rows, choose_ranks
from zerosim.errors import InputError
from zerosim.trace import Trace
from zerosim_app.runheader import palette_record, run_record

VERSION: Final = 1
UNKNOWN_LEAD: Final = -(2**31)
MAX_EXACT_NS: Final = 2**53
"""Doubles count whole nanoseconds up to here."""
MAX_OPS: Final = 50_000
"""More different ops would make the JSON larger than the bytes."""
MAX_SERIES: Final = 64
"""One rank's memory is shown at a time; the first ranks are enough to choose from."""
COUNTERS: Final = ("memory.in_use", "memory.allocated", "memory.reserved")
"""Counters that the memory track can show, the first that a run has.

What the device uses comes first: a host that runs ahead allocates long before the spans above it.
"""
_OP_COLUMNS: Final = ("name", "kind", "unit", "stream", "group", "dtype", "nbytes", "wire_bytes")


@dataclass(frozen=True, slots=True)
class Encoded:
    """What the three routes of a run answer, and a hash of the bytes and of the JSON."""

    spans: bytes
    samples: bytes
    timeline: bytes
    etag: str
    timeline_etag: str


def encode(trace: Trace, choice: Choice, ranks_query: str, run_id: str) -> Encoded:
    """`trace` for the timeline. Raises InputError for unknown ranks and for runs too big to draw."""
    chosen = choose_ranks(trace, choice)
    table = assign_rows(chosen)
    base_ns, duration_ns = _extent(trace)
    drawn = _sorted(chosen.spans, table)
    ops, op_of = _ops(drawn)
    spans = _encode_spans(trace, drawn, op_of, base_ns, len(table.rows))
    samples, series = _encode_samples(chosen, base_ns)
    etag = _hash(spans + samples)
    query = f"?ranks={ranks_query}&v={etag}"
    header = {
        "version": VERSION,
        "id": run_id,
        "base_ns": str(base_ns),
        "duration_ns": duration_ns,
        "n_spans": drawn.height,
        "hidden": {"instant": table.instant, "crowded": table.crowded},
        "ranks": ranks_query,
        "groups": [_group_record(group) for group in table.groups],
        "rows": [{"group": r.group, "lane": r.lane, "sub": r.sub} for r in table.rows],
        "ops": ops,
        "memory": series,
        "spans_url": f"spans.bin{query}",
        "samples_url": f"samples.bin{query}",
        **run_record(trace, base_ns),
        **palette_record(),
    }
    timeline = orjson.dumps(header)
    return Encoded(spans, samples, timeline, etag, _hash(timeline))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _group_record(group: RowGroup) -> dict[str, Any]:
    return {
        "label": group.label,
        "rank": group.rank,
        "members": group.members,
        "first_row": group.first_row,
        "n_rows": group.n_rows,
    }


def _extent(trace: Trace) -> tuple[int, int]:
    # Of all ranks, so that times and addresses mean the same whichever ranks are on show.
    spans = trace.spans
    if not spans.height:
        return 0, 1
    base, end = trace.begin_ns, int(spans["end_ns"].to_numpy().max())
    if end - base >= MAX_EXACT_NS:
        raise InputError(f"this run lasts {end - base} ns, over 104 days: mend its times")
    return base, max(1, end - base)


def _sorted(spans: pl.DataFrame, table: RowTable) -> pl.DataFrame:
    placed = spans.with_columns(row=pl.Series(table.row_of, dtype=pl.Int32))
    return placed.filter(pl.col("row") >= 0).sort("row", "start_ns", maintain_order=True)


def _ops(drawn: pl.DataFrame) -> tuple[dict[str, list[Any]], NDArray[np.uint32]]:
    # Columns of what spans have in common, coarser if a run has too many different ones to name.
    for known in (_OP_COLUMNS, ("name", "kind", "stream"), ("kind", "stream")):
        keys = pl.struct(known).rank("dense") - 1
        numbered = drawn.with_columns(op=keys.cast(pl.UInt32)) if drawn.height else drawn
        if not drawn.height:
            return {name: [] for name in _OP_COLUMNS}, np.zeros(0, dtype=np.uint32)
        distinct = numbered.group_by("op").first().sort("op")
        if distinct.height <= MAX_OPS:
            break
    columns = {
        name: distinct[name].to_list() if name in known else [None] * distinct.height
        for name in _OP_COLUMNS
    }
    if "name" not in known:
        columns["name"] = columns["kind"]
    return columns, numbered["op"].to_numpy()


def _encode_spans(
    trace: Trace, drawn: pl.DataFrame, op_of: NDArray[np.uint32], base_ns: int, n_rows: int
) -> bytes:
    start = drawn["start_ns"].to_numpy() - base_ns
    duration = drawn["end_ns"].to_numpy() - drawn["start_ns"].to_numpy()
    lead = drawn.select(pl.col("start_ns") - pl.col("issued_ns")).to_series()
    collective, transfer = _transfers(trace, drawn["collective"], base_ns)
    offsets = np.searchsorted(drawn["row"].to_numpy(), np.arange(n_rows + 1)).astype("<u4")
    wide = _is_wide(duration, lead)
    header = struct.pack("<4s5I8x", b"ZSPN", VERSION, len(start), n_rows, len(transfer), int(wide))
    if wide:
        times = [_bytes(duration, "<f8"), _bytes(lead.cast(pl.Float64).fill_null(np.nan), "<f8")]
    else:
        times = [_bytes(duration, "<u4"), _bytes(lead.fill_null(UNKNOWN_LEAD), "<i4")]
    return b"".join(
        [
            header,
            _bytes(start, "<f8"),
            _bytes(transfer, "<f8"),
            *times,
            offsets.tobytes(),
            _bytes(drawn["source"], "<u4"),
            _bytes(collective, "<i4"),
            _bytes(op_of, "<u4"),
            _bytes(drawn["kind"].to_physical(), "u1"),
            _bytes(drawn["flags"], "u1"),
        ]
    )


def _bytes(column: Any, dtype: str) -> bytes:  # noqa: ANN401 - numpy array or polars series
    return np.asarray(column, dtype=dtype).tobytes()


def _is_wide(duration: NDArray[np.int64], lead: pl.Series) -> bool:
    if not len(duration):
        return False
    leads = lead.abs().max()
    return int(duration.max()) >= 2**32 or (isinstance(leads, int) and leads >= 2**31)


def _transfers(
    trace: Trace, ids: pl.Series, base_ns: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    # Over all ranks of the run, not only those on show: a transfer starts at the last arrival.
    shown = ids.drop_nulls().unique().sort()
    arrivals = (
        trace.spans.filter(pl.col("collective").is_in(shown.implode()))
        .group_by("collective")
        .agg(pl.col("start_ns").max(), pl.col("group").cast(pl.String).first())
        .sort("collective")
    )
    known = arrivals["group"].is_in(list(_complete_groups(trace))) | _all_ranks_seen(trace)
    last = (arrivals["start_ns"] - base_ns).cast(pl.Float64).to_numpy()
    dense = np.searchsorted(shown.to_numpy(), ids.fill_null(0).to_numpy()).astype(np.int32)
    dense[ids.is_null().to_numpy()] = -1
    if not trace.meta.clock.aligned:
        return dense, np.full(len(last), np.nan)
    return dense, np.where(known.fill_null(value=False).to_numpy(), last, np.nan)


def _all_ranks_seen(trace: Trace) -> bool:
    return trace.meta.world_size is not None and len(trace.seen_ranks) >= trace.meta.world_size


def _complete_groups(trace: Trace) -> set[str]:
    seen = trace.seen_ranks
    return {g.name for g in trace.meta.groups if g.ranks is not None and seen.issuperset(g.ranks)}


def _encode_samples(chosen: Chosen, base_ns: int) -> tuple[bytes, list[dict[str, Any]]]:
    present = set(chosen.samples["counter"].cast(pl.String).unique().to_list())
    counter = next((name for name in COUNTERS if name in present), None)
    ranks = [group.rank for group in chosen.groups][:MAX_SERIES]
    shown = (
        chosen.samples.filter(
            (pl.col("counter").cast(pl.String) == (counter or "")) & pl.col("rank").is_in(ranks)
        )
        .sort("rank", "time_ns", maintain_order=True)
        .drop_nulls(["time_ns", "value", "rank"])
    )
    series = [
        {
            "rank": rank,
            "counter": counter,
            "offset": int(shown["rank"].search_sorted(rank, "left")),
            "n": rows.height,
            "peak": rows["value"].max(),
        }
        for (rank,), rows in shown.group_by("rank", maintain_order=True)
    ]
    header = struct.pack("<4s2I4x", b"ZSMP", VERSION, shown.height)
    times = (shown["time_ns"] - base_ns).to_numpy()
    return header + _bytes(times, "<f8") + _bytes(shown["value"], "<f8"), series
