"""Logs of DeepSpeed's comms logger: verbose lines, one a collective, else its tables of sums."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
from zerosim.importers.deepspeed_tables import UNITS, Row, has_table, read_tables
from zerosim.importers.json_lines import Faults
from zerosim.importers.kineto.facts import kind_of
from zerosim.importers.recording import Recording
from zerosim.importers.untimed import logged

_MARK: Final = b"comm op: "
_LINE: Final = re.compile(
    rb"(?:\[Rank (?P<rank>\d{1,7})\][^\n]{0,200})?comm op: (?P<name>[\w.\[\]-]{1,100}) \|"
    rb"(?: \[Caller Func: [^|\n]{0,200}\] \|)? time \(ms\): (?P<ms>\d{1,9}(?:\.\d{1,9})?) \|"
    rb" msg size: (?P<size>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>B|KB|MB|GB|TB|PB) \|"
)
_MOST: Final = 2**22
"""So many collectives tables may tell of."""
_BEFORE: Final = 220
"""Bytes before its mark in which a line says its rank."""
_LONGEST: Final = 500
_UNKNOWN: Final = (
    "when a collective began: they are laid out one after the other",
    "overlap: the logger waits for each collective, so its times are not those of a training step",
    "exact sizes: the log rounds them, and does not say whether one is of a shard or of the whole",
    "dtypes, process groups and steps",
)
_MEANS: Final = (
    "how long each collective took: a table has their number and sum, and each counts as their mean",
    "in which order they ran, and on which rank: tables do not say it",
)


def sniff(raw: bytes) -> bool:
    """Whether `raw` has a whole line or row of the comms logger: a text about such logs has parts of one."""
    if b"\0" in raw[:4096]:
        return False
    return (_MARK in raw and _LINE.search(raw) is not None) or has_table(raw)


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """A recording for each rank that logged. Raises TraceFileError where times do not fit.

    Tables tell of the calls that lines tell of, so where there are lines, they alone count.
    """
    del choice
    faults = Faults()
    if ranks := _lines(content, faults):
        found = logged(content, ranks, faults, _UNKNOWN)
        return (_with_tables(found[0], read_tables(content, Faults())), *found[1:])
    rows = _collectives(content, read_tables(content, faults))
    return logged(content, {None: rows}, faults, _UNKNOWN + _MEANS if rows else _UNKNOWN)


def _lines(content: Content, faults: Faults) -> dict[int | None, list[dict[str, Any]]]:
    ranks: dict[int | None, list[dict[str, Any]]] = defaultdict(list)
    raw, at, before = content.raw, 0, 0
    while (at := raw.find(_MARK, at)) >= 0:
        # Ranks tear their lines into each other: a call reaches from its own mark to the next one.
        start = max(raw.rfind(b"\n", before, at) + 1, before, at - _BEFORE)
        end, before = raw.find(_MARK, at + len(_MARK), at + _LONGEST), at + len(_MARK)
        found = _LINE.search(raw[start : end if end >= 0 else at + _LONGEST])
        at = before
        if found:
            ranks[int(found["rank"]) if found["rank"] else None].append(_row(found))
        else:
            faults.skipped += 1
            faults.note(content, start, "a line of the logger that is not whole")
    return ranks


def _with_tables(recording: Recording, tables: list[list[Row]]) -> Recording:
    if not (rows := sum(map(len, tables))):
        return recording
    said = (
        f"'{recording.source}' also has tables, of {rows} rows: they tell of the same calls, so the"
        " lines alone count"
    )
    quality = recording.quality
    return replace(recording, quality=replace(quality, warnings=(*quality.warnings, said)))


def _collectives(content: Content, tables: list[list[Row]]) -> list[dict[str, Any]]:
    rows = [row for table in tables for row in table]
    if (n := sum(row.count for row in rows)) > _MOST:
        raise TraceFileError(
            f"'{content.path}' has tables of {n} collectives, and no more than {_MOST} can be read:"
            " log a summary after fewer steps"
        )
    found: list[dict[str, Any]] = []
    for row in rows:
        each = _told(row.name, row.nbytes, row.ms / row.count)
        found += [each] * row.count
    return found


def _row(found: re.Match[bytes]) -> dict[str, Any]:
    nbytes = round(float(found["size"]) * UNITS[found["unit"]])
    return _told(found["name"].decode(), nbytes, float(found["ms"]))


def _told(name: str, nbytes: int, ms: float) -> dict[str, Any]:
    return {
        "stream": "collectives",
        "kind": kind_of(name).value,
        "name": name,
        "nbytes": nbytes,
        "ns": round(ms * 1e6),
    }
