"""Hand-made runs, encoded for the timeline, and the plain way to read the bytes back."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from zerosim.trace import Meta, Trace, make_trace
from zerosim_app.spansbin import Encoded, encode

COLUMNS = ("rank", "stream", "kind", "name", "start_ns", "end_ns")
BASE = 1_700_000_000_000_000_000
"""A wall-clock time in ns: too big for a double, so that a lost base would be seen."""


def trace_of(
    rows: list[tuple[Any, ...]],
    extra: dict[str, list[Any]] | None = None,
    samples: dict[str, list[Any]] | None = None,
    **meta: Any,
) -> Trace:
    columns: dict[str, list[Any]] = {
        name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)
    }
    facts: dict[str, Any] = {"name": "made", "source": "simulated", "world_size": 2, **meta}
    return make_trace({**columns, **(extra or {})} if rows else {}, Meta(**facts), samples)


def two_ranks(**meta: Any) -> Trace:
    """AG0 on two ranks, the second arriving 30 ns later, then F0; rank 1's rows stand first."""
    rows = [
        (1, "all_gather", "all_gather", "AG0", BASE + 40, BASE + 100),
        (1, "compute", "forward", "F0", BASE + 100, BASE + 150),
        (0, "all_gather", "all_gather", "AG0", BASE + 10, BASE + 100),
        (0, "compute", "forward", "F0", BASE + 100, BASE + 140),
    ]
    extra: dict[str, list[Any]] = {
        "issued_ns": [BASE + 5, None, BASE, BASE + 2],
        "collective": [10**12, None, 10**12, None],
        "group": ["world", None, "world", None],
        "nbytes": [4096, None, 4096, None],
        "unit": ["0", "0", "0", "0"],
        "flags": [0, 2, 0, 0],
    }
    return trace_of(rows, extra, **meta)


def decode(encoded: Encoded) -> dict[str, NDArray[Any]]:
    """The plain way to read spans.bin, from the layout in Note [spans.bin]."""
    magic, version, n, rows, collectives, flags = struct.unpack_from("<4s5I", encoded.spans)
    assert (magic, version) == (b"ZSPN", 1)
    wide = bool(flags & 1)
    at = 32
    columns = {}
    for name, dtype, length in (
        ("start", "<f8", n),
        ("transfer", "<f8", collectives),
        ("duration", "<f8" if wide else "<u4", n),
        ("lead", "<f8" if wide else "<i4", n),
        ("rowOffsets", "<u4", rows + 1),
        ("index", "<u4", n),
        ("collective", "<i4", n),
        ("op", "<u4", n),
        ("kind", "u1", n),
        ("flags", "u1", n),
    ):
        assert at % np.dtype(dtype).itemsize == 0, name
        columns[name] = np.frombuffer(encoded.spans, dtype, length, at)
        at += columns[name].nbytes
    assert at == len(encoded.spans)
    return columns


def header(encoded: Encoded) -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(encoded.timeline)
    return record


def encoded(trace: Trace) -> Encoded:
    return encode(trace, "all", "all", "made")
