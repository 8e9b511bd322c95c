"""Tables of DeepSpeed's comms logger: how many collectives of each name and size, and how long in all."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from zerosim.importers.content import Content
from zerosim.importers.json_lines import Faults

_HEADS: Final = re.compile(
    rb"Comm\. Op +Message Size +Count +Total (?P<what>Latency|comm lat)\(ms\)"
)
"""The second one is of stragglers among the same calls."""
_NAME: Final = re.compile(rb"([\w.\[\]-]{1,100})(?: \| \[Caller Func: [^|]{0,200}\])?\s*")
_NUMBER: Final = rb"\d{1,12}(?:\.\d{1,9})?"
_ROW: Final = re.compile(
    rb"\s+(?P<size>%b) ?(?P<unit>[KMGTP]?B)\s+(?P<count>[1-9]\d{0,11})\s+(?P<ms>%b)"
    rb"(?:\s+(?:%b|inf|nan)){3}\s*" % (_NUMBER, _NUMBER, _NUMBER)
)
_TORN: Final = re.compile(rb"\s{10,}\d[\d.]*(?: ?[KMGTP]?B\s|\s*$)|.*?(?:\d\.\d\d\s{2,}){2}")
"""What begins or ends like a row."""
UNITS: Final = {unit: 1024**i for i, unit in enumerate((b"B", b"KB", b"MB", b"GB", b"TB", b"PB"))}


@dataclass(frozen=True, slots=True)
class Row:
    """So many collectives of one name, each of about so many bytes; `ms` is what all took together."""

    op: bytes
    name: str
    nbytes: int
    count: int
    ms: float


def has_table(raw: bytes) -> bool:
    """Whether `raw` has the head of a table, and a row."""
    heads = _HEADS.finditer(raw)
    return any(_ROW.search(raw, head.end(), head.end() + 2**16) for head in heads)


def read_tables(content: Content, faults: Faults) -> list[list[Row]]:
    """The tables that tell of different calls, in order; `faults` says of rows that are not whole."""
    heads = list(_HEADS.finditer(content.raw))
    ends = [*(head.start() for head in heads), len(content.raw)][1:]
    found = [
        _table(content, head.start(), end, faults)
        for head, end in zip(heads, ends, strict=True)
        if head["what"] == b"Latency"
    ]
    return [table for table, later in pairwise([*found, []]) if not _is_in(table, later)]


def _is_in(table: list[Row], later: list[Row]) -> bool:
    """Whether `later` counts on from `table`, as the logger does until somebody resets it."""
    return _counts(table) <= _counts(later)


def _counts(table: list[Row]) -> Counter[tuple[bytes, int]]:
    counts: Counter[tuple[bytes, int]] = Counter()
    for row in table:
        counts[row.op, row.nbytes] += row.count
    return counts


def _table(content: Content, begin: int, end: int, faults: Faults) -> list[Row]:
    raw, rows = content.raw, []
    before = raw[raw.rfind(b"\n", 0, begin) + 1 : begin]  # what a launcher writes before each line
    at = raw.find(b"\n", begin, end) + 1 or end
    named, largest = None, 0
    for line in raw[at:end].splitlines(keepends=True):
        text = line.removeprefix(before)
        row = _ROW.fullmatch(text)
        nbytes = round(float(row["size"]) * UNITS[row["unit"]]) if row else 0
        if row and named and nbytes >= largest:
            largest = nbytes
            told = int(row["count"]), float(row["ms"])
            rows.append(Row(named[0].strip(), named[1].decode(), nbytes, *told))
        elif row or _TORN.match(text):
            named = None if row else named  # sizes ascend: where they do not, a name is missing
            faults.skipped += 1
            faults.note(content, at, "a row of a table that is not whole")
        elif (name := _NAME.fullmatch(text)) is not None:
            named, largest = name, 0
        at += len(line)
    return rows
