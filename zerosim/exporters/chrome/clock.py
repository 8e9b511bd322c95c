"""Nanoseconds to the microseconds of the format, digit by digit, from an origin before all events."""

from __future__ import annotations

from typing import Final

import orjson

from zerosim.trace import Trace

FIRST_NS: Final = 1_000_000
"""Where the first event lies: at 0 many readers think that an event was never timed."""


def origin_of(trace: Trace) -> int:
    """The moment that the file calls 0, in ns; it may be negative."""
    moments = [
        *(trace.spans[column].min() for column in ("start_ns", "issued_ns")),
        trace.samples["time_ns"].min(),
        *(window.start_ns for window in trace.meta.steps),
    ]
    return min((m for m in moments if isinstance(m, int)), default=0) - FIRST_NS


def microseconds(ns: int) -> orjson.Fragment:
    """`ns` >= 0 as `12.345`: no float between, so no digit is lost."""
    return orjson.Fragment(f"{ns // 1000}.{ns % 1000:03d}")
