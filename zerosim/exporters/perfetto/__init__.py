"""Perfetto's own format: a process a rank, tracks with names, slices that never cross, counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from zerosim.disk import whole_file
from zerosim.exporters.host import host_marks, is_launched
from zerosim.exporters.lanes import lay_apart, refuse_empty
from zerosim.exporters.perfetto import schema
from zerosim.exporters.perfetto.schema import TraceFile
from zerosim.trace import SPANS, Trace

_SEQUENCE: Final = 1
_STATE_CLEARED: Final = 1
_NOT_TOLD: Final = ("rank", "stream", "name", "start_ns", "end_ns")
_TOLD: Final = tuple(column for column in SPANS if column not in _NOT_TOLD)


class _Slice(NamedTuple):
    """A bar of a track: `flow` ties a launch (the first end) to what it launched (the other)."""

    start: int
    end: int
    name: str
    category: str
    args: dict[str, Any]
    flow: int | None
    launches: bool


def write(trace: Trace, path: Path) -> None:
    """All ranks in one file. Raises InputError if no rank did anything."""
    refuse_empty(trace)
    with whole_file(path) as file:
        for place, packet in enumerate(_packets(trace)):
            if not place:
                packet["sequence_flags"] = _STATE_CLEARED
            packet["trusted_packet_sequence_id"] = _SEQUENCE
            file.write(TraceFile(packet=[packet]).SerializeToString(deterministic=True))


def _packets(trace: Trace) -> Iterator[dict[str, Any]]:
    uuids, flow = count(1), 1
    shift = max(0, -_first(trace))  # the format knows no time before 0
    for rank in trace.ranks:
        spans = trace.spans.filter(pl.col("rank") == rank)
        rows = spans.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).to_dicts()
        process = next(uuids)
        named = {"pid": rank + 1, "process_name": f"rank {rank}"}  # 0 is the idle process
        yield _track(process, process=named, child_ordering=schema.EXPLICIT)
        order = count()
        for name, slices in _tracks(trace, rank, rows, flow):
            own = next(uuids)
            yield _track(own, name, process, next(order))
            yield from _events(own, slices, shift)
        yield from _counters(trace, rank, process, uuids, order, shift)
        flow += len(rows)


def _first(trace: Trace) -> int:
    moments = [trace.spans["start_ns"].min(), trace.spans["issued_ns"].min()]
    moments += [trace.samples["time_ns"].min(), *(w.start_ns for w in trace.meta.steps)]
    return min(m for m in moments if isinstance(m, int))


def _track(
    uuid: int, name: str | None = None, parent: int | None = None, place: int = 0, **more: object
) -> dict[str, Any]:
    told = {"uuid": uuid, "name": name, "parent_uuid": parent, "sibling_order_rank": place, **more}
    told["sibling_merge_behavior"] = schema.APART
    return {"track_descriptor": {key: value for key, value in told.items() if value is not None}}


def _tracks(
    trace: Trace, rank: int, rows: list[dict[str, Any]], flow: int
) -> Iterator[tuple[str, list[_Slice]]]:
    """Tracks in the order to show: the host, then each stream, with what crosses on tracks beside."""
    windows = [window for window in trace.meta.steps if window.rank == rank]
    yield from _laid(
        "host",
        [
            _Slice(
                m.start, m.end, m.name, "host", {}, None if m.row is None else flow + m.row, True
            )
            for m in host_marks(rows, windows)
        ],
    )
    for stream in dict.fromkeys(row["stream"] for row in rows):
        mine = [(i, row) for i, row in enumerate(rows) if row["stream"] == stream]
        yield from _laid(stream, [_slice(row, flow + i) for i, row in mine])


def _slice(row: dict[str, Any], flow: int) -> _Slice:
    told = {column: row[column] for column in _TOLD if row[column] is not None}
    tied = flow if is_launched(row) else None
    return _Slice(row["start_ns"], row["end_ns"], row["name"], row["kind"], told, tied, False)


def _laid(name: str, slices: Sequence[_Slice]) -> Iterator[tuple[str, list[_Slice]]]:
    lanes = lay_apart([(s.start, s.end) for s in slices])
    for lane in range(max(lanes, default=-1) + 1):
        mine = [s for s, chosen in zip(slices, lanes, strict=True) if chosen == lane]
        yield f"{name} ({lane + 1})" if lane else name, mine


def _events(track: int, slices: list[_Slice], shift: int) -> Iterator[dict[str, Any]]:
    # At one moment a slice ends before the next one begins: who reads keeps the order of the file.
    opened: list[int] = []
    for piece in sorted(slices, key=lambda s: (s.start, -s.end)):
        while opened and opened[-1] <= piece.start:
            yield _event(track, opened.pop() + shift, schema.SLICE_END)
        flows = {} if piece.flow is None else {_end_of_flow(piece): [piece.flow]}
        yield _event(
            track,
            piece.start + shift,
            schema.SLICE_BEGIN,
            name=piece.name,
            categories=[piece.category],
            debug_annotations=[_annotation(*item) for item in piece.args.items()],
            **flows,
        )
        opened.append(piece.end)
    while opened:
        yield _event(track, opened.pop() + shift, schema.SLICE_END)


def _end_of_flow(piece: _Slice) -> str:
    return "flow_ids" if piece.launches else "terminating_flow_ids"


def _event(track: int, moment: int, kind: int, **more: object) -> dict[str, Any]:
    return {"timestamp": moment, "track_event": {"type": kind, "track_uuid": track, **more}}


def _annotation(name: str, value: object) -> dict[str, Any]:
    return {"name": name, "int_value" if isinstance(value, int) else "string_value": value}


def _counters(
    trace: Trace, rank: int, process: int, uuids: Iterator[int], order: Iterator[int], shift: int
) -> Iterator[dict[str, Any]]:
    samples = trace.samples.filter(pl.col("rank") == rank)
    for counter in samples["counter"].unique(maintain_order=True).cast(pl.String):
        own = next(uuids)
        unit = {"unit_name": "bytes/s"} if counter.startswith("link.") else {"unit": schema.BYTES}
        yield _track(own, counter, process, next(order), counter=unit)
        mine = samples.filter(pl.col("counter").cast(pl.String) == counter)
        for moment, value in mine.select("time_ns", "value").drop_nulls().iter_rows():
            yield _event(own, moment + shift, schema.COUNTER, counter_value=value)
