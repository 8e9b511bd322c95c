"""A sound file, a batch of events at a time: its text and the tree of it never stand side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import orjson

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


def unfold(raw: bytes, *, exactly: bool = False) -> tuple[dict[str, Any], Iterator[list[Any]]]:
    """What `raw` says beside its events, and its events in batches, in order.

    `exactly`: times with a fraction come as text, for 19 digits do not fit a float.

    Raises UnsoundError, also while the batches are read, for what has to be read otherwise.
    """
    start = _first_event(raw)
    last = _last_event(raw, start)
    header, tail = _parsed(raw[:start] + raw[last:], exactly)
    return header, chain(_batches(raw, start, last, exactly), (tail,))


def _first_event(raw: bytes) -> int:
    """Where the only list of events begins."""
    if bare := _BARE.match(raw):
        return bare.end()
    key = raw.find(_KEY)
    opening = _OPENING.match(raw, key + len(_KEY)) if key >= 0 else None
    if opening is None or raw.find(_KEY, opening.end()) >= 0:
        raise UnsoundError
    return opening.end()


def _last_event(raw: bytes, start: int) -> int:
    """Where the last event begins that the search finds, far enough to the end; else `start`."""
    begin = max(start, len(raw) - _TAIL_BYTES)
    return max((cut.end() for cut in _CUT.finditer(raw, begin)), default=start)


def _batches(raw: bytes, start: int, last: int, exactly: bool) -> Iterator[list[Any]]:
    while start < last:
        cut = _CUT.search(raw, start + BATCH_BYTES, last)
        end = cut.end() if cut else last
        # What stands at the end of a cut is the comma, and blanks.
        yield _parsed(b"[%b]" % raw[start : raw.rindex(b",", start, end)], exactly)[1]
        start = end


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
