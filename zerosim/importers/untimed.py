"""Rows of formats that say what was sent but not when: laid out one after the other, or without a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content
from zerosim.importers.json_lines import Faults
from zerosim.importers.recording import ROWS, Recording, refuse_many
from zerosim.quality import Quality
from zerosim.trace import Flag


def logged(
    content: Content,
    ranks: Mapping[int | None, Sequence[dict[str, Any]]],
    faults: Faults,
    unknown: tuple[str, ...],
) -> tuple[Recording, ...]:
    """A recording for the rows of each rank of a log (None: it does not say); the first tells of `faults`.

    Raises TraceFileError where the times do not fit.
    """
    refuse_many(content.path, len(ranks))
    name = content.path.name
    first = replace(faults.quality(content, unknown), events=faults.skipped)
    found: list[Recording] = []
    for rank in sorted(ranks, key=lambda rank: -1 if rank is None else rank):
        rows, quality = ranks[rank], Quality() if found else first
        quality = replace(quality, events=quality.events + len(rows), unknown=unknown)
        spans = one_after_another(str(content.path), rows)
        found.append(Recording(source=name, rank=rank, spans=spans, quality=quality))
    return tuple(found)


def one_after_another(source: str, rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """`rows` as columns ROWS. Each lasts its `ns` and begins when the one before it ended; null: untimed.

    Raises TraceFileError, naming `source`, where they do not fit into an int64.
    """
    ends = list(accumulate(row.get("ns") or 0 for row in rows))
    if ends and ends[-1] >= 2**62:
        raise TraceFileError(f"'{source}' lasts {ends[-1]} ns by its times: copy the log again")
    columns = {name: [row.get(name) for row in rows] for name in ROWS}
    columns |= {"start_ns": [0, *ends[:-1]] if ends else [], "end_ns": ends}
    columns["flags"] = [0 if row.get("ns") is not None else int(Flag.UNTIMED) for row in rows]
    return pl.DataFrame(columns, schema=ROWS)
