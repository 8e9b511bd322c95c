"""A sound file, a batch of events at a time: its text and the tree of it never stand side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import orjson

from zerosim.importers.stored import Source

BATCH_BYTES: Final = 2**17
"""Text of events that is unfolded at once: its tree fits a cache, which makes it twice as quick."""

_TAIL_BYTES: Final = 2**16
_KEY: Final = b'"traceEvents"'
_OPENING: Final = re.compile(rb"\s*:\s*\[")
_BARE: Final = re.compile(rb"\s*\[")
_FRACTION: Final = re.compile(rb'("ts"\s*:\s*)(-?\d+[.eE][-+.eE\d]*)')

# Note [Cuts]: in sound JSON this is found nowhere but between two objects of one list. Inside a text the
# quote would be escaped; at the end of one no letter follows it. That the list is that of the events,
# and not one inside an event or behind them, shows in the batches: each must be a list by itself.
_CUT: Final = re.compile(rb'\}\s*,\s*(?=\{\s*"\w)')


class UnsoundError(ValueError):
    """The text cannot be read in batches: it is damaged, or is no object with one list of events."""


class Mends(Protocol):
    """Who reads what is damaged, or raises UnsoundError."""

    def events(self, start: int, end: int) -> list[Any]:
        """The events that stand from `start` to `end`."""

    def frame(self, start: int, end: int, kept: int | None) -> tuple[dict[str, Any], list[Any]]:
        """The header and the last events, where `kept` events stand from `start` to `end`."""


def read_batches(
    raw: Source, *, exactly: bool = False, mends: Mends | None = None
) -> tuple[dict[str, Any], Iterator[list[Any]]]:
    """What `raw` says beside its events, and its events in batches, in order.

    `exactly`: times with a fraction come as text, for 19 digits do not fit a float.

    Raises UnsoundError, also while the batches are read, for what has to be read otherwise.
    """
    start = _first_event(raw)
    last = _last_event(raw, start)
    batches = _batches(raw, start, last, exactly, mends)
    try:
        header, tail = _parsed(raw[:start] + raw[last:], exactly)
    except UnsoundError:
        if mends is None:
            raise
        header, _ = mends.frame(start, last, None)
        return header, _with_end(batches, lambda kept: mends.frame(start, last, kept)[1])
    return header, _with_end(batches, lambda _: tail)


def _with_end(batches: Iterator[list[Any]], end: Callable[[int], list[Any]]) -> Iterator[list[Any]]:
    """`batches`, and then what stands at the end, which hears how many events came before."""
    kept = 0
    for batch in batches:
        kept += len(batch)
        yield batch
    yield end(kept)


def _first_event(raw: Source) -> int:
    """Where the only list of events begins."""
    if bare := _BARE.match(raw[:_TAIL_BYTES]):
        return bare.end()
    key = raw.find(_KEY)
    behind = key + len(_KEY)
    opening = _OPENING.match(raw[behind : behind + _TAIL_BYTES]) if key >= 0 else None
    if opening is None or raw.find(_KEY, behind) >= 0:
        raise UnsoundError
    return behind + opening.end()


def _last_event(raw: Source, start: int) -> int:
    """Where the last event begins that the search finds, far enough to the end; else `start`."""
    begin = max(start, len(raw) - _TAIL_BYTES)
    ends = [begin + cut.end() for cut in _CUT.finditer(raw[begin : len(raw)])]
    return max(ends, default=start)


def _batches(
    raw: Source, start: int, last: int, exactly: bool, mends: Mends | None
) -> Iterator[list[Any]]:
    while start < last:
        batch = _batch(raw, start, last)
        # What stands at the end of a cut is the comma, and blanks.
        comma = batch.rindex(b",")
        try:
            events = _parsed(b"[%b]" % batch[:comma], exactly)[1]
        except UnsoundError:
            if mends is None:
                raise
            events = mends.events(start, start + comma)
        yield events
        start += len(batch)


def _batch(raw: Source, start: int, last: int) -> bytes:
    """The next events, up to a cut; at `last` there is one."""
    size = BATCH_BYTES + _TAIL_BYTES
    while True:
        text = raw[start : min(start + size, last)]
        if cut := _CUT.search(text, BATCH_BYTES):
            return text[: cut.end()]
        if start + len(text) >= last:
            return text
        size *= 2


def _parsed(text: bytes, exactly: bool) -> tuple[dict[str, Any], list[Any]]:
    """The object and the list of events in `text`."""
    try:
        document = orjson.loads(_FRACTION.sub(rb'\1"\2"', text) if exactly else text)
    except orjson.JSONDecodeError:
        raise UnsoundError from None
    header: dict[str, Any] = document if isinstance(document, dict) else {}
    events = header.pop("traceEvents", None) if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise UnsoundError
    return header, events
