"""Kineto / Chrome traces (JSON, one file a rank) to recordings."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
from zerosim.importers.kineto import header as heads
from zerosim.importers.kineto.called import called_spans
from zerosim.importers.kineto.events import Events, InexactError, sort_events
from zerosim.importers.kineto.facts import Facts, from_metadata
from zerosim.importers.kineto.gloo import gloo_spans, is_gloo
from zerosim.importers.kineto.gpu import gpu_spans
from zerosim.importers.kineto.memory import memory_samples
from zerosim.importers.kineto.mending import Mender
from zerosim.importers.kineto.steps import step_windows
from zerosim.importers.kineto.stream import UnsoundError, unfold
from zerosim.importers.kineto.times import fits_float, has_uneven_decimals
from zerosim.importers.kineto.unread import unread_places
from zerosim.importers.loose_json import MAX_PLACES, Parsed, parse_exactly, parse_json
from zerosim.importers.recording import Recording, Window
from zerosim.kinds import SIZED
from zerosim.quality import Place, Quality
from zerosim.trace import Flag, Group, flagged, of_kind

WHOLE_BYTES: Final = 2**24
"""A damaged file up to this size is read whole: its tree takes ten times as much."""


def sniff(raw: bytes) -> bool:
    """Whether `raw` is a Chrome trace: an object with `traceEvents`, or a list of events."""
    start = raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"[":
        return b'"ph"' in raw[: 2**16]
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "traceEvents".encode("utf-16-le")[:-1] in raw
    return start == b"{" and b'"traceEvents"' in raw


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """The recording in one file. Raises TraceFileError for a file that cannot be read as a trace."""
    with _no_collection():
        return (_parse(content, salvage=choice.salvage),)


@contextmanager
def _no_collection() -> Iterator[None]:
    # A million small objects are made and none is garbage: the collector would walk them over and over.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _parse(content: Content, *, salvage: bool) -> Recording:
    read = _batched(content, salvage=salvage) or _whole_tree(content, salvage=salvage)
    header, events = read.header, read.events
    windows = step_windows(events.steps)
    device = heads.device_of(events.gpu)
    groups = _groups(header, events)
    spans = _spans(events, windows, groups)
    quality = _quality(content, read, spans)
    return Recording(
        source=content.path.name,
        rank=heads.rank(header),
        world_size=heads.world_size(header),
        device=heads.device_name(header, device),
        spans=spans,
        samples=memory_samples(events.memory, device),
        windows=windows,
        groups=groups,
        absolute=heads.is_absolute(_first(spans, windows)),
        quality=quality,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What a file says of itself, its events in piles and their number, and what was mended."""

    header: dict[str, Any]
    events: Events
    n_events: int
    repaired: int = 0
    skipped: int = 0
    warnings: tuple[str, ...] = ()
    lost: int = 0
    places: tuple[Place, ...] = ()


def _batched(content: Content, *, salvage: bool) -> _Read | None:
    """The file, batch by batch; None if it has to be read otherwise: small and damaged, or no object."""
    try:
        try:
            return _sorted(Mender(content, exactly=False, salvage=salvage))
        except InexactError:
            return _sorted(Mender(content, exactly=True, salvage=salvage))
    except UnsoundError:
        return None


def _sorted(mender: Mender) -> _Read:
    sizes: list[int] = []

    def sized(batches: Iterator[list[Any]]) -> Iterator[list[Any]]:
        for batch in batches:
            sizes.append(len(batch))
            yield batch

    raw = mender.content.raw
    mends = mender if len(raw) > WHOLE_BYTES else None
    header, batches = unfold(raw, exactly=mender.exactly, mends=mends)
    events = sort_events(chain.from_iterable(sized(batches)), heads.base_ns(header))
    told = mender.told
    return _Read(
        header,
        events,
        sum(sizes),
        sum(part.repaired for part in told),
        sum(part.skipped for part in told),
        tuple(warning for part in told for warning in part.warnings),
        sum(part.lost for part in told),
        tuple(place for part in told for place in part.places)[:MAX_PLACES],
    )


def _whole_tree(content: Content, *, salvage: bool) -> _Read:
    parsed = parse_json(content, salvage=salvage)
    header, listed = _split(content, parsed)
    if not all(fits_float(event.get("ts")) for event in listed if isinstance(event, dict)):
        parsed = parse_exactly(content, salvage=salvage)
        header, listed = _split(content, parsed)
    return _Read(
        header,
        sort_events(listed, heads.base_ns(header)),
        len(listed),
        parsed.repaired,
        parsed.skipped,
        parsed.warnings,
        parsed.lost,
        parsed.places,
    )


def _split(content: Content, parsed: Parsed) -> tuple[dict[str, Any], list[Any]]:
    document = parsed.document
    header: dict[str, Any] = document if isinstance(document, dict) else {}
    listed = header.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise TraceFileError(f"'{content.path}' has no list of traceEvents: give a Kineto trace")
    return header, listed


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


def _quality(content: Content, read: _Read, spans: pl.DataFrame) -> Quality:
    events, n_events = read.events, read.n_events
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
        (skipped, "has {} events whose time cannot be read: left out"),
        (has_uneven_decimals(content.raw), "has decimals of several lengths: read as decimals"),
    )
    name = content.path.name
    said = tuple(f"'{name}' {text.format(count)}" for count, text in notes if count)
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
