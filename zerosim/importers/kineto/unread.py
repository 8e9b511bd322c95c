"""Where the events lie whose time cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from zerosim.importers.content import Content
from zerosim.importers.stored import matches
from zerosim.quality import MAX_PLACES, Place

_LONGEST: Final = 40
"""Letters of a time that is none: the search needs no more."""


def unread_places(content: Content, skipped: Sequence[Any]) -> tuple[Place, ...]:
    """The bytes of the first of the times in `skipped` (events, or tuples that begin with `ts`)."""
    times = [_time(event) for event in islice(skipped, MAX_PLACES)]
    places = []
    for text in dict.fromkeys(times):
        pattern = rb'"ts"\s*:\s*' + re.escape(text.encode(errors="replace"))
        found = islice(matches(content.whole, re.compile(pattern)), times.count(text))
        what = f"time {text} cannot be read: left out"
        places += [Place(content.path.name, at, what) for at in found]
    return tuple(places)


def _time(event: object) -> str:
    """What the file has written for a time, its first letters."""
    if isinstance(event, dict):
        event = event.get("ts")
    elif isinstance(event, tuple):
        event = event[0]
    if isinstance(event, dict | list):  # which may be nested deeper than a text of it can be made
        return "{" if isinstance(event, dict) else "["
    return json.dumps(event, ensure_ascii=False, default=str)[:_LONGEST]
