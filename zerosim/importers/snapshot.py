"""Memory snapshots of PyTorch (pickles) to samples: what the allocator held at each moment."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
from zerosim.importers.counts import count
from zerosim.importers.pickled import is_pickle, parse_pickle
from zerosim.importers.recording import COUNTS, ROWS, Recording, is_absolute, tabulate
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
_NUMBERS: Final = {action: place for place, action in enumerate(_EFFECTS)}
_HELD: Final = {
    "active_allocated": (_ALLOCATED, _IN_USE),
    "active_awaiting_free": (_IN_USE,),
    "active_pending_free": (_IN_USE,),
}
_SEGMENT: Final = b"segment_type"
_MOST_BYTES: Final = 2**50
_MOST_HELD: Final = 2**61
_LATEST_US: Final = 2**52
"""A time after this does not fit into nanoseconds."""
_MOST_DEVICES: Final = 1024
_ASKED: Final = "what the allocator rounds sizes up to: blocks count as the program asked for them"
_ALONE: Final = "what was computed or sent: a memory snapshot sees the allocator alone"
_RANK: Final = "the rank: a memory snapshot does not say it"


def sniff(raw: bytes) -> bool:
    """Whether `raw` is a pickle with the allocator's segments and the history of its devices.

    Of a big one the histories may begin behind what is seen of it.
    """
    return is_pickle(raw) and b"segments" in raw and (b"device_traces" in raw or _SEGMENT in raw)


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """A recording for each device with a history. Raises TraceFileError for what is no snapshot."""
    del choice
    document = parse_pickle(content)
    traces = document.get("device_traces") if isinstance(document, dict) else None
    segments = document.get("segments") if isinstance(document, dict) else None
    listed = isinstance(traces, list) and all(isinstance(trace, list) for trace in traces)
    if not isinstance(traces, list) or not listed or not isinstance(segments, list):
        raise TraceFileError(f"'{content.path}' has no segments or traces: give a memory snapshot")
    if len(traces) > _MOST_DEVICES:
        raise TraceFileError(f"'{content.path}' has {len(traces)} devices: give a memory snapshot")
    used = [device for device, trace in enumerate(traces) if trace]
    return tuple(
        _recording(content, device, traces[device] if traces else [], segments)
        for device in used or [0]
    )


def _recording(content: Content, device: int, trace: list[Any], segments: list[Any]) -> Recording:
    events, lost = _events(trace)
    samples, short = _samples(content, events, _held(segments, device))
    first = events["time_ns"].first()
    return Recording(
        source=content.path.name,
        rank=None,
        spans=_history(events),
        samples=samples,
        absolute=is_absolute(first if isinstance(first, int) else None),
        quality=_quality(content, device, trace, lost, short),
    )


def _events(trace: list[Any]) -> tuple[pl.DataFrame, list[int]]:
    """The events of one device, time never running back, and the places of those left out.

    Columns: `action` (its place in _EFFECTS), `time_ns`, `nbytes`.
    """
    actions, times, sizes, lost = array("b"), array("q"), array("q"), []
    for place, entry in enumerate(trace):
        event = _event(entry)
        if event is None:
            lost.append(place)
            continue
        actions.append(event[0])
        times.append(event[1])
        sizes.append(event[2])
    columns = {
        "action": np.array(actions, dtype=np.int8),
        "time_ns": np.maximum.accumulate(np.array(times, dtype=np.int64)),
        "nbytes": np.array(sizes, dtype=np.int64),
    }
    return pl.DataFrame(columns), lost


def _event(entry: object) -> tuple[int, int, int] | None:
    if not isinstance(entry, dict):
        return None
    action, time_us = entry.get("action"), count(entry.get("time_us"), _LATEST_US)
    nbytes = count(entry.get("size"), _MOST_BYTES)
    if not isinstance(action, str) or action not in _NUMBERS or not time_us or nbytes is None:
        return None
    return _NUMBERS[action], time_us * NS_PER_US, nbytes


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
    content: Content, events: pl.DataFrame, held: dict[str, int]
) -> tuple[pl.DataFrame, list[str]]:
    """Samples counted back from what was held at the end, and the counters for which that fails.

    Those are raised so far that they touch zero: their history is longer than what is held allows.
    """
    if not events.height:
        return pl.DataFrame(schema=COUNTS), []
    _check(content, max(float(events["nbytes"].to_numpy().sum(dtype=np.float64)), *held.values()))
    changes = events.join(_changes(), on="action", maintain_order="left_right").select(
        "time_ns", "counter", value=(pl.col("nbytes") * pl.col("sign")).cum_sum().over("counter")
    )
    told = changes.group_by("counter").agg(pl.last("value"), pl.min("value").alias("least"))
    ends = {counter: (last, min(least, 0)) for counter, last, least in told.iter_rows()}
    first, short = {}, []
    for counter, at_end in held.items():
        change, lowest = ends.get(counter, (0, 0))
        first[counter] = max(at_end - change, -lowest)
        if at_end - change + lowest < 0:
            short.append(counter)
    _check(content, max(first.values()))
    begin = {
        "time_ns": [events["time_ns"][0]] * len(first),
        "counter": pl.Series(list(first), dtype=pl.Categorical),
    }
    bases = pl.DataFrame(
        {"counter": pl.Series(list(first), dtype=pl.Categorical), "base": list(first.values())}
    )
    levels = changes.join(bases, on="counter", maintain_order="left").select(
        "time_ns", "counter", value=pl.col("value") + pl.col("base")
    )
    at_first = pl.DataFrame({**begin, "value": list(first.values())})
    return pl.concat([at_first, levels]).cast(pl.Schema(COUNTS)), short


def _changes() -> pl.DataFrame:
    """What an event of each action adds to which counter: `sign` times its size."""
    return pl.DataFrame(
        [(place, *change) for place, changes in enumerate(_EFFECTS.values()) for change in changes],
        schema={"action": pl.Int8, "counter": pl.Categorical, "sign": pl.Int64},
        orient="row",
    )


def _check(content: Content, nbytes: float) -> None:
    if nbytes >= _MOST_HELD:
        raise TraceFileError(
            f"'{content.path}' holds sizes that no device has: take the snapshot again"
        )


def _history(events: pl.DataFrame) -> pl.DataFrame:
    """One row (columns ROWS): from the first to the last event, nothing is known but the samples."""
    if not events.height:
        return pl.DataFrame(schema=ROWS)
    start, end = events["time_ns"][0], events["time_ns"][-1]
    what: dict[str, list[Any]] = {
        "stream": ["host"],
        "kind": [Kind.HOST],
        "name": ["memory history"],
        "flags": [0],
    }
    return tabulate({**what, "issued_ns": [start], "start_ns": [start], "end_ns": [end]})


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
