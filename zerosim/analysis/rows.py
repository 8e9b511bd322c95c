"""Rows of a timeline: which ranks stand for whom, and on which row, without overlap, a span is drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zerosim.errors import InputError
from zerosim.trace import RankClass, Trace, expand

LANES: Final = ("host", "compute", "all_gather", "reduce_scatter", "all_reduce", "copy")
"""Streams that come first, in this order; others follow by name and number."""
MAX_SUBLANES: Final = 16
"""More spans of one stream at one moment cannot be told apart by eye; they are counted instead."""
MAX_ROWS: Final = 20_000
"""More than anyone scrolls through, and each is an entry of the JSON."""
MAX_SPANS: Final = 4_000_000
"""About 120 MB for the browser to fetch and keep."""
MAX_RANKS: Final = 1_000_000
"""Each rank that a run names costs an entry here, whether it has rows or not."""

Choice = Literal["classes", "all"] | tuple[int, ...]
"""Equal ranks once (`classes`), every rank (`all`), or these ranks."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows of one rank that stands for all `members` (inclusive ranges of ranks)."""

    rank: int
    members: tuple[tuple[int, int], ...]
    first_row: int = 0
    n_rows: int = 0

    @property
    def label(self) -> str:
        """`rank 3`, `ranks 0-15` or `ranks 0-6, 8`."""
        parts = [str(a) if a == b else f"{a}-{b}" for a, b in self.members]
        single = len(parts) == 1 and "-" not in parts[0]
        return f"{'rank' if single else 'ranks'} {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the stream of a group; `sub` > 0 where spans of the stream overlap."""

    group: int
    lane: str
    sub: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The spans to draw; column `source` is the row of `Trace.spans` a span was copied from."""

    spans: pl.DataFrame
    samples: pl.DataFrame
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True, slots=True)
class RowTable:
    """`row_of` (one int32 a span, -1 = on no row) says where; no two spans of a row overlap.

    `instant`: spans without duration, which have no row. `crowded`: those beyond MAX_SUBLANES.
    """

    groups: tuple[RowGroup, ...]
    rows: tuple[Row, ...]
    row_of: NDArray[np.int32]
    instant: int
    crowded: int


def choose_ranks(trace: Trace, choice: Choice = "classes") -> Chosen:
    """The spans of the ranks of `choice`. Raises InputError for unknown ranks or too many spans."""
    n_ranks = sum(rank_class.size for rank_class in trace.meta.classes)
    if n_ranks > MAX_RANKS:
        raise InputError(f"run '{trace.meta.name}' names {n_ranks} ranks: at most {MAX_RANKS} do")
    known = trace.seen_ranks
    if choice == "classes":
        groups = _class_groups(trace)
    else:
        wanted = sorted(known) if choice == "all" else sorted(set(choice))
        groups = [RowGroup(rank, ((rank, rank),)) for rank in wanted]
    ranks = tuple(group.rank for group in groups)
    absent = sorted(set(ranks) - known)
    if absent:
        raise InputError(f"run '{trace.meta.name}' has no rank {absent[0]}: {_has(known)}")
    _check_size(trace, ranks)
    numbered = replace(trace, spans=trace.spans.with_row_index("source"))
    chosen = expand(numbered, ranks)
    return Chosen(chosen.spans, chosen.samples, tuple(groups))


def assign_rows(chosen: Chosen) -> RowTable:
    """Give each span that takes time a row, in the order of groups, LANES, sub-lanes.

    Raises InputError if that would need more than MAX_ROWS rows.
    """
    spans = chosen.spans
    start, end = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    lanes = lane_order(spans["stream"].cast(pl.String).unique().to_list())
    lane = _lane_of(chosen, lanes)
    timed = np.flatnonzero(end > start)
    order = timed[np.lexsort((-end[timed], start[timed], lane[timed]))]
    sub = _sublanes(lane[order], start[order], end[order])
    keys = np.where(sub < MAX_SUBLANES, lane[order] * MAX_SUBLANES + sub, -1)
    used = np.unique(keys[keys >= 0])
    if len(used) > MAX_ROWS:
        raise InputError(f"these ranks need {len(used)} rows: choose fewer than {MAX_ROWS}")
    row_of = np.full(spans.height, -1, dtype=np.int32)
    row_of[order] = np.where(keys >= 0, np.searchsorted(used, keys), -1)
    rows = tuple(_row(int(key), lanes) for key in used)
    crowded = int((keys < 0).sum())
    groups = _place(chosen.groups, rows)
    return RowTable(groups, rows, row_of, spans.height - len(timed), crowded)


def lane_order(streams: Sequence[str]) -> tuple[str, ...]:
    """`streams` as they stand from top to bottom: LANES first, then the others by name and number."""
    fixed = [lane for lane in LANES if lane in streams]
    return (*fixed, *sorted(set(streams) - set(LANES), key=_natural))


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    # `stream 7` before `stream 21`; a run of digits longer than any stream's number is text.
    parts = re.split(r"(\d{1,18})", name)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def _class_groups(trace: Trace) -> list[RowGroup]:
    present = set(trace.ranks)
    groups = [
        RowGroup(rank, rank_class.members)
        for rank_class in trace.meta.classes
        if (rank := _speaker(rank_class, present)) is not None
    ]
    covered = {r for rank_class in trace.meta.classes for r in rank_class.ranks}
    groups += [RowGroup(rank, ((rank, rank),)) for rank in present - covered]
    return sorted(groups, key=lambda group: group.members[0])


def _speaker(rank_class: RankClass, present: set[int]) -> int | None:
    if rank_class.representative in present:
        return rank_class.representative
    return next((rank for rank in rank_class.ranks if rank in present), None)


def _has(known: frozenset[int]) -> str:
    return f"it has ranks {min(known)} to {max(known)}" if known else "it has no ranks"


def _check_size(trace: Trace, ranks: tuple[int, ...]) -> None:
    counts: dict[int, int] = dict(trace.spans.group_by("rank").len().iter_rows())
    copied = {r: c.representative for c in trace.meta.classes for r in c.ranks}
    n_spans = sum(counts.get(r, counts.get(copied.get(r, r), 0)) for r in ranks)
    if n_spans > MAX_SPANS:
        raise InputError(
            f"{len(ranks)} ranks of '{trace.meta.name}' are {n_spans} spans, more than {MAX_SPANS}: "
            f"choose ranks with ?ranks=0,1"
        )


def _lane_of(chosen: Chosen, lanes: tuple[str, ...]) -> NDArray[np.int64]:
    ranks = np.array([group.rank for group in chosen.groups], dtype=np.int64)
    by_rank = np.argsort(ranks)
    rank = chosen.spans["rank"].to_numpy()
    group = by_rank[np.searchsorted(ranks[by_rank], rank)] if len(ranks) else rank
    position = pl.DataFrame(
        {"stream": lanes, "lane": range(len(lanes))},
        schema={"stream": pl.String, "lane": pl.Int64},
    )
    stream = chosen.spans.select(pl.col("stream").cast(pl.String))
    lane = stream.join(position, on="stream", how="left", maintain_order="left")["lane"]
    return np.asarray(group * max(1, len(lanes)) + lane.to_numpy(), dtype=np.int64)


def _sublanes(
    lane: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    # Sorted by lane and start. Streams that run in order need no search, and they are the rule.
    sub = np.zeros(len(lane), dtype=np.int64)
    bounds: list[int] = np.flatnonzero(np.diff(lane, prepend=-1, append=-1)).tolist()
    for first, last in pairwise(bounds):
        s, e = start[first:last], end[first:last]
        if bool((s[1:] < np.maximum.accumulate(e)[:-1]).any()):
            sub[first:last] = _first_fit(s.tolist(), e.tolist())
    return sub


def _first_fit(starts: list[int], ends: list[int]) -> list[int]:
    free_from: list[int] = []
    chosen = []
    for start, end in zip(starts, ends, strict=True):
        sub = next((i for i, free in enumerate(free_from) if free <= start), len(free_from))
        if sub == len(free_from) < MAX_SUBLANES:
            free_from.append(end)
        elif sub < MAX_SUBLANES:
            free_from[sub] = end
        chosen.append(sub)
    return chosen


def _row(key: int, lanes: tuple[str, ...]) -> Row:
    lane, sub = divmod(key, MAX_SUBLANES)
    group, position = divmod(lane, len(lanes))
    return Row(group, lanes[position], sub)


def _place(groups: tuple[RowGroup, ...], rows: tuple[Row, ...]) -> tuple[RowGroup, ...]:
    of_group = [row.group for row in rows]
    firsts = np.searchsorted(of_group, range(len(groups) + 1)).tolist() if groups else []
    return tuple(
        replace(group, first_row=first, n_rows=after - first)
        for group, first, after in zip(groups, firsts[:-1], firsts[1:], strict=True)
    )
