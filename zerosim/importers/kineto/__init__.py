"""Kineto / Chrome traces (JSON, one file a rank) to recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from zerosim.importers.choice import Choice
from zerosim.importers.content import Content, first_byte
from zerosim.importers.kineto import header as heads
from zerosim.importers.kineto.called import called_spans
from zerosim.importers.kineto.events import Events, sort_events
from zerosim.importers.kineto.facts import Facts, from_metadata
from zerosim.importers.kineto.gloo import gloo_spans, is_gloo
from zerosim.importers.kineto.gpu import gpu_spans
from zerosim.importers.kineto.memory import memory_samples
from zerosim.importers.kineto.reading import Reading, read_events
from zerosim.importers.kineto.steps import step_windows
from zerosim.importers.kineto.times import has_uneven_decimals
from zerosim.importers.kineto.unread import unread_places
from zerosim.importers.recording import Recording, Window, is_absolute, left_out, remarks
from zerosim.kinds import SIZED
from zerosim.quality import Quality
from zerosim.trace import Flag, Group, flagged, of_kind


def sniff(raw: bytes) -> bool:
    """Whether `raw` is a Chrome trace: an object with `traceEvents`, or a list of events."""
    start = first_byte(raw)
    if start == b"[":
        return b'"ph"' in raw[: 2**16]
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "traceEvents".encode("utf-16-le")[:-1] in raw
    return start == b"{" and b'"traceEvents"' in raw


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """The recording in one file. Raises TraceFileError for a file that cannot be read as a trace."""

    def sift(header: dict[str, Any], events: Iterator[Any]) -> Events | None:
        return sort_events(events, heads.base_ns(header)) if _asked_for(header, choice) else None

    read = read_events(content, sift, salvage=choice.salvage)
    events = read.found
    if events is None:
        return (left_out(content.path.name, heads.rank(read.header)),)
    return (_recording(content, read, events),)


def _asked_for(header: dict[str, Any], choice: Choice) -> bool:
    rank = heads.rank(header)
    return choice.ranks is None or rank is None or rank in choice.ranks


def _recording(content: Content, read: Reading[Any], events: Events) -> Recording:
    header = read.header
    windows = step_windows(events.steps)
    device = heads.device_of(events.gpu)
    groups = _groups(header, events)
    spans = _spans(events, windows, groups)
    quality = _quality(content, read, events, spans)
    return Recording(
        source=content.path.name,
        rank=heads.rank(header),
        world_size=heads.world_size(header),
        device=heads.device_name(header, device),
        spans=spans,
        samples=memory_samples(events.memory, device),
        windows=windows,
        groups=groups,
        absolute=is_absolute(_first(spans, windows)),
        quality=quality,
    )


def _spans(events: Events, windows: tuple[Window, ...], groups: tuple[Group, ...]) -> pl.DataFrame:
    if events.gpu:
        return gpu_spans(events, windows, groups)
    if is_gloo(events):
        return gloo_spans(events, windows, groups)
    return called_spans(events, windows)


def _groups(header: dict[str, Any], events: Events) -> tuple[Group, ...]:
    listed = {group.name: group for group in heads.groups(header)}
    for piece in (*events.comms, *events.gpu):
        facts = from_metadata(piece.args) if "Process Group Name" in piece.args else None
        if facts and facts.group and facts.group_size and facts.group not in listed:
            listed[facts.group] = Group(facts.group, facts.group_size, _whole(facts))
    return tuple(listed.values())


def _whole(facts: Facts) -> tuple[int, ...] | None:
    # Long lists of ranks are cut by the profiler; a cut list is no list.
    return facts.ranks if facts.ranks and len(facts.ranks) == facts.group_size else None


def _first(spans: pl.DataFrame, windows: Sequence[Window]) -> int | None:
    timed = spans.filter(~flagged(Flag.UNTIMED))["start_ns"].min()
    moments = [timed] if isinstance(timed, int) else []
    return min([*moments, *(w.start_ns for w in windows)], default=None)


def _quality(content: Content, read: Reading[Any], events: Events, spans: pl.DataFrame) -> Quality:
    n_events = read.n_events
    unsized = spans.filter(of_kind(SIZED) & pl.col("elements").is_null()).height
    before = _flagged(spans, Flag.BEFORE_WINDOW)
    skipped = len(events.skipped)
    notes = (
        (not n_events, "has no events"),
        (
            n_events and not events.gpu and not is_gloo(events),
            "has no GPU events: nothing is timed",
        ),
        (_flagged(spans, Flag.UNTIMED), "has {} ops without a time"),
        (
            _flagged(spans, Flag.UNFINISHED),
            "has {} ops that never ended: its last step is incomplete",
        ),
        (before, "has {} ops launched before the recording"),
        (unsized, "has {} collectives of unknown size"),
        (skipped, "has {} events whose time or sort cannot be read: left out"),
        (
            events.strange.total(),
            f"has {{}} events of categories that nobody knows{_named(events)}",
        ),
        (has_uneven_decimals(content.raw), "has decimals of several lengths: read as decimals"),
    )
    name = content.path.name
    said = remarks(name, notes)
    return Quality(
        events=n_events,
        repaired=read.repaired,
        skipped=read.skipped + skipped,
        before_window=before,
        unsized=unsized,
        lost=read.lost,
        warnings=content.warnings + read.warnings + said,
        places=read.places + unread_places(content, events.skipped),
        unknown=_unknown(events),
    )


def _named(events: Events) -> str:
    return f" ('{next(iter(events.strange))}'): passed over" if events.strange else ""


def _unknown(events: Events) -> tuple[str, ...]:
    timed = events.gpu or is_gloo(events)
    silent = (
        (True, "bytes on the wire: the sizes of tensors alone are written"),
        (not timed, "durations of collectives, and what of them is exposed: no device was timed"),
        (not events.steps, "steps: nothing marks them (no ProfilerStep)"),
        (not events.memory, "memory: the profiler did not record it (profile_memory)"),
    )
    return tuple(text for is_so, text in silent if is_so)


def _flagged(spans: pl.DataFrame, flag: Flag) -> int:
    return spans.filter(flagged(flag)).height
