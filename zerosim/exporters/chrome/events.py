"""The events of one rank: steps, launches, work on streams, the arrows between them, counters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import polars as pl

from zerosim.exporters.chrome.clock import microseconds
from zerosim.exporters.chrome.disguise import category, metadata, shown_name
from zerosim.exporters.host import host_marks, is_launched
from zerosim.exporters.lanes import lay_apart
from zerosim.importers.exported import KEY, TOLD
from zerosim.kinds import HOST_SIDE, Kind
from zerosim.trace import Group, StepWindow, Trace

Event = dict[str, Any]
_STREAM: Final = re.compile(r"stream (\d{1,6})$")
_FIRST_STREAM: Final = 7
"""The stream on which CUDA programs compute, where a run's streams bear names of their own."""


@dataclass(frozen=True, slots=True)
class _Rank:
    """What the events of a rank have in common; `threads` names each tid, in the order to show."""

    rank: int
    origin: int
    streams: Mapping[str, int]
    groups: Mapping[str, Group]
    threads: dict[int, str]
    fresh: Iterator[int]

    def event(self, name: str, kind: str, tid: int, start: int, end: int, args: Event) -> Event:
        """A complete event."""
        return {
            "ph": "X",
            "cat": kind,
            "name": name,
            "pid": self.rank,
            "tid": tid,
            "ts": microseconds(start - self.origin),
            "dur": microseconds(end - start),
            "args": args,
        }


def rank_events(trace: Trace, rank: int, origin: int, correlation: int) -> Iterator[Event]:
    """All events of `rank`; its spans, in their order, bear correlations from `correlation` on."""
    spans = trace.spans.filter(pl.col("rank") == rank)
    rows = spans.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).to_dicts()
    streams = _numbered(spans["stream"].unique(maintain_order=True).cast(pl.String).to_list())
    fresh = count(max(streams.values(), default=_FIRST_STREAM) + 1)
    groups = {group.name: group for group in trace.meta.groups}
    own = _Rank(rank, origin, streams, groups, {}, fresh)
    windows = [window for window in trace.meta.steps if window.rank == rank]
    yield from _host_events(own, rows, windows, correlation)
    yield from _stream_events(own, rows, correlation)
    yield from _counters(own, trace.samples.filter(pl.col("rank") == rank))
    yield from _labels(own)


def _numbered(streams: list[str]) -> dict[str, int]:
    # `stream 7` keeps its number; others get the next free one.
    numbers = {name: int(m[1]) for name in streams if (m := _STREAM.match(name))}
    if len(set(numbers.values())) < len(numbers):
        numbers = {}
    free = (n for n in count(_FIRST_STREAM) if n not in set(numbers.values()))
    return {name: numbers[name] if name in numbers else next(free) for name in streams}


def _host_events(
    own: _Rank, rows: list[Event], windows: list[StepWindow], correlation: int
) -> Iterator[Event]:
    marks = host_marks(rows, windows)
    lanes = lay_apart([(mark.start, mark.end) for mark in marks])
    tids = _tids(own, "host", max(lanes, default=-1) + 1, None)
    for lane, (start, end, name, row) in zip(lanes, marks, strict=True):
        if row is None:
            yield own.event(name, "user_annotation", tids[lane], start, end, {})
            continue
        identity = correlation + row
        args = {"correlation": identity}
        yield own.event(name, "cuda_runtime", tids[lane], start, end, args)
        yield _arrow(own, "s", tids[lane], start, identity)


def _stream_events(own: _Rank, rows: list[Event], correlation: int) -> Iterator[Event]:
    tids: list[int] = [0] * len(rows)
    for stream, number in own.streams.items():
        places = [i for i, row in enumerate(rows) if row["stream"] == stream]
        lanes = lay_apart([(rows[i]["start_ns"], rows[i]["end_ns"]) for i in places])
        threads = _tids(own, stream, max(lanes, default=-1) + 1, number)
        for i, lane in zip(places, lanes, strict=True):
            tids[i] = threads[lane]
    for i, (row, tid) in enumerate(zip(rows, tids, strict=True)):
        kind = Kind(row["kind"])
        name = shown_name(kind, row["name"])
        args = _arguments(own, kind, row, correlation + i)
        yield own.event(
            name, category(kind, row["name"]), tid, row["start_ns"], row["end_ns"], args
        )
        if is_launched(row):
            yield _arrow(own, "f", tid, row["start_ns"], correlation + i)


def _arguments(own: _Rank, kind: Kind, row: Event, correlation: int) -> Event:
    told = {column: row[column] for column in TOLD if row[column] is not None}
    if kind in HOST_SIDE:
        return {KEY: told}
    return {
        "device": 0,
        "context": 1,
        "stream": own.streams[row["stream"]],
        "correlation": correlation,
        **metadata(kind, row, own.groups.get(row["group"])),
        KEY: told,
    }


def _tids(own: _Rank, name: str, n_lanes: int, first: int | None) -> list[int]:
    tids = [next(own.fresh) if lane or first is None else first for lane in range(n_lanes)]
    for lane, tid in enumerate(tids):
        own.threads[tid] = f"{name} ({lane + 1})" if lane else name
    return tids


def _arrow(own: _Rank, end: str, tid: int, moment: int, identity: int) -> Event:
    arrow = {"ph": end, "cat": "ac2g", "name": "ac2g", "id": identity, "pid": own.rank, "tid": tid}
    arrow["ts"] = microseconds(moment - own.origin)
    return arrow | {"bp": "e"} if end == "f" else arrow


def _counters(own: _Rank, samples: pl.DataFrame) -> Iterator[Event]:
    for moment, _, counter, value in samples.with_columns(
        pl.col("counter").cast(pl.String)
    ).iter_rows():
        unit = "bytes/s" if counter.startswith("link.") else "bytes"
        yield {
            "ph": "C",
            "name": counter,
            "pid": own.rank,
            "ts": microseconds(moment - own.origin),
            "args": {unit: value},
        }


def _labels(own: _Rank) -> Iterator[Event]:
    names = (
        ("process_name", {"name": f"rank {own.rank}"}),
        ("process_labels", {"labels": f"GPU of rank {own.rank}"}),
        ("process_sort_index", {"sort_index": own.rank}),
    )
    for name, args in names:
        yield {"ph": "M", "name": name, "pid": own.rank, "tid": 0, "args": args}
    for place, (tid, label) in enumerate(own.threads.items()):
        ids = {"ph": "M", "pid": own.rank, "tid": tid}
        yield {**ids, "name": "thread_name", "args": {"name": label}}
        yield {**ids, "name": "thread_sort_index", "args": {"sort_index": place}}
