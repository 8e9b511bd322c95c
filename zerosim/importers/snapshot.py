"""Memory snapshots of PyTorch (pickles) to samples: what the allocator held at each moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
from zerosim.importers.counts import count
from zerosim.importers.pickled import is_pickle, parse_pickle
from zerosim.importers.recording import COUNTS, ROWS, Recording, is_absolute
from zerosim.kinds import Kind
from zerosim.quality import MAX_PLACES, Place, Quality
from zerosim.units import NS_PER_US

_ALLOCATED, _IN_USE, _RESERVED = "memory.allocated", "memory.in_use", "memory.reserved"
_EFFECTS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "alloc": ((_ALLOCATED, 1), (_IN_USE, 1)),
    "free_requested": ((_ALLOCATED, -1),),
    "free_completed": ((_IN_USE, -1),),
    "segment_alloc": ((_RESERVED, 1),),
    "segment_map": ((_RESERVED, 1),),
    "segment_free": ((_RESERVED, -1),),
    "segment_unmap": ((_RESERVED, -1),),
    "snapshot": (),
    "oom": (),
}
"""What an event adds to which counter, times its size."""
_HELD: Final = {
    "active_allocated": (_ALLOCATED, _IN_USE),
    "active_awaiting_free": (_IN_USE,),
    "active_pending_free": (_IN_USE,),
}
_MOST_BYTES: Final = 2**50
_LATEST_US: Final = 2**52
"""A time after this does not fit into nanoseconds."""
_MOST_DEVICES: Final = 1024
_ASKED: Final = "what the allocator rounds sizes up to: blocks count as the program asked for them"
_ALONE: Final = "what was computed or sent: a memory snapshot sees the allocator alone"
_RANK: Final = "the rank: a memory snapshot does not say it"


@dataclass(frozen=True, slots=True)
class _Event:
    action: str
    time_ns: int
    nbytes: int


def sniff(raw: bytes) -> bool:
    """Whether `raw` is a pickle with the allocator's segments and the history of its devices."""
    return is_pickle(raw) and b"device_traces" in raw and b"segments" in raw


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """A recording for each device with a history. Raises TraceFileError for what is no snapshot."""
    del choice
    document = parse_pickle(content)
    traces = document.get("device_traces") if isinstance(document, dict) else None
    segments = document.get("segments") if isinstance(document, dict) else None
    if not isinstance(traces, list) or not isinstance(segments, list):
        raise TraceFileError(f"'{content.path}' has no segments or traces: give a memory snapshot")
    if len(traces) > _MOST_DEVICES:
        raise TraceFileError(f"'{content.path}' has {len(traces)} devices: it is no snapshot")
    used = [device for device, trace in enumerate(traces) if isinstance(trace, list) and trace]
    return tuple(
        _recording(content, device, traces[device] if traces else [], segments)
        for device in used or [0]
    )


def _recording(content: Content, device: int, trace: list[Any], segments: list[Any]) -> Recording:
    events, lost = _events(trace)
    samples, short = _samples(content, events, _held(segments, device))
    return Recording(
        source=content.path.name,
        rank=None,
        spans=_history(events),
        samples=samples,
        absolute=is_absolute(events[0].time_ns if events else None),
        quality=_quality(content, device, trace, lost, short),
    )


def _events(trace: list[Any]) -> tuple[list[_Event], list[int]]:
    """The events of one device, time never running back, and the places of those left out."""
    read = [_event(entry) for entry in trace]
    events, latest = [], 0
    for event in read:
        if event is not None:
            latest = max(latest, event.time_ns)
            events.append(_Event(event.action, latest, event.nbytes))
    return events, [i for i, event in enumerate(read) if event is None]


def _event(entry: object) -> _Event | None:
    if not isinstance(entry, dict):
        return None
    action, time_us = entry.get("action"), count(entry.get("time_us"), _LATEST_US)
    nbytes = count(entry.get("size"), _MOST_BYTES)
    if not isinstance(action, str) or action not in _EFFECTS or not time_us or nbytes is None:
        return None
    return _Event(action, time_us * NS_PER_US, nbytes)


def _held(segments: list[Any], device: int) -> dict[str, int]:
    """What the device held when the snapshot was taken, by counter."""
    held = dict.fromkeys((_ALLOCATED, _IN_USE, _RESERVED), 0)
    for segment in segments:
        if isinstance(segment, dict) and segment.get("device", 0) == device:
            held[_RESERVED] += count(segment.get("total_size")) or 0
            for counter, nbytes in _blocks(segment.get("blocks")):
                held[counter] += nbytes
    return held


def _blocks(blocks: object) -> Iterable[tuple[str, int]]:
    for block in blocks if isinstance(blocks, list) else ():
        state = block.get("state") if isinstance(block, dict) else None
        asked = count(block.get("requested_size", block.get("size"))) if state else None
        for counter in _HELD.get(state, ()) if isinstance(state, str) else ():
            yield counter, asked or 0


def _samples(
    content: Content, events: Sequence[_Event], held: dict[str, int]
) -> tuple[pl.DataFrame, list[str]]:
    """Samples counted back from what was held at the end, and the counters for which that fails.

    Those are raised so far that they touch zero: their history is longer than what is held allows.
    """
    change = dict.fromkeys(held, 0)
    lowest = dict.fromkeys(held, 0)
    for event in events:
        for counter, sign in _EFFECTS[event.action]:
            change[counter] += sign * event.nbytes
            lowest[counter] = min(lowest[counter], change[counter])
    first = {counter: held[counter] - change[counter] for counter in held}
    short = [counter for counter in held if first[counter] + lowest[counter] < 0]
    level = {c: -lowest[c] if c in short else first[c] for c in held}
    if max(*level.values(), sum(e.nbytes for e in events)) >= 2**61:
        raise TraceFileError(f"'{content.path}' holds sizes that no device has: it is damaged")
    rows = [(events[0].time_ns, counter, level[counter]) for counter in held] if events else []
    for event in events:
        for counter, sign in _EFFECTS[event.action]:
            level[counter] += sign * event.nbytes
            rows.append((event.time_ns, counter, level[counter]))
    return pl.DataFrame(rows, schema=COUNTS, orient="row"), short


def _history(events: Sequence[_Event]) -> pl.DataFrame:
    """One row (columns ROWS): from the first to the last event, nothing is known but the samples."""
    if not events:
        return pl.DataFrame(schema=ROWS)
    row: dict[str, list[Any]] = {column: [None] for column in ROWS}
    start, end = events[0].time_ns, events[-1].time_ns
    row |= {"stream": ["host"], "kind": [Kind.HOST], "name": ["memory history"], "flags": [0]}
    row |= {"issued_ns": [start], "start_ns": [start], "end_ns": [end]}
    return pl.DataFrame(row, schema=ROWS)


def _quality(
    content: Content, device: int, trace: list[Any], lost: Sequence[int], short: Sequence[str]
) -> Quality:
    name = content.path.name
    said = [f"'{name}' device {device}: {text}" for text in _oddities(trace, lost, short)]
    return Quality(
        events=len(trace),
        skipped=len(lost),
        warnings=(*content.warnings, *said),
        places=tuple(
            Place(name, None, f"device {device}, event {i} has no known action, time or size")
            for i in lost[:MAX_PLACES]
        ),
        unknown=(_ASKED, _ALONE, _RANK),
    )


def _oddities(trace: list[Any], lost: Sequence[int], short: Sequence[str]) -> Iterable[str]:
    if not trace:
        yield "has no history: it was not recorded (torch.cuda.memory._record_memory_history)"
    if lost:
        yield f"{len(lost)} events have no known action, time or size: left out"
    for counter in short:
        yield f"{counter} does not fit what was held at the end: read as if it began just high enough"
    failed = [e for e in trace if isinstance(e, dict) and e.get("action") == "oom"]
    if failed:
        size, free = count(failed[0].get("size")), count(failed[0].get("device_free"))
        yield f"out of memory {len(failed)} times, first asking for {size} bytes with {free} free"
