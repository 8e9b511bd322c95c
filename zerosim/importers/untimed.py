"""Rows of formats that say what was sent but not when: laid out one after the other, or without a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.recording import ROWS
from zerosim.trace import Flag


def one_after_another(source: str, rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """`rows` as columns ROWS. Each lasts its `ns` and begins when the one before it ended; null: untimed.

    Raises TraceFileError, naming `source`, where they do not fit into an int64.
    """
    now, filled = 0, []
    for row in rows:
        ns = row.get("ns")
        flags = 0 if ns is not None else int(Flag.UNTIMED)
        filled.append({**row, "start_ns": now, "end_ns": now + (ns or 0), "flags": flags})
        now += ns or 0
    if now >= 2**62:
        raise TraceFileError(f"'{source}' lasts {now} ns by its times: copy the log again")
    return pl.DataFrame({n: [row.get(n) for row in filled] for n in ROWS}, schema=ROWS)
