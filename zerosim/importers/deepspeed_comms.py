"""Logs of DeepSpeed's comms logger, verbose: one line a collective, with its time and rounded size."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

import polars as pl

from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
from zerosim.importers.kineto.facts import kind_of
from zerosim.importers.recording import COUNTS, Recording
from zerosim.importers.untimed import one_after_another
from zerosim.quality import Place, Quality

_MARK: Final = b"comm op: "
_LINE: Final = re.compile(
    rb"(?:\[Rank (?P<rank>\d{1,7})\][^\n]{0,200})?comm op: (?P<name>[\w.\[\]-]{1,100}) \|"
    rb"(?: \[Caller Func: [^|\n]{0,200}\] \|)? time \(ms\): (?P<ms>\d{1,9}(?:\.\d{1,9})?) \|"
    rb" msg size: (?P<size>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>B|KB|MB|GB|TB|PB) \|"
)
_UNITS: Final = {unit: 1024**i for i, unit in enumerate((b"B", b"KB", b"MB", b"GB", b"TB", b"PB"))}
_PLACES: Final = 20
_UNKNOWN: Final = (
    "when a collective began: they are laid out one after the other",
    "overlap: the logger waits for each collective, so its times are not those of a training step",
    "exact sizes: the log rounds them, and does not say whether one is of a shard or of the whole",
    "dtypes, process groups and steps",
)


def sniff(raw: bytes) -> bool:
    """Whether `raw` has lines of the comms logger."""
    return _MARK in raw and b"| time (ms): " in raw and b"\0" not in raw[:4096]


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """A recording for each rank that logged. Raises TraceFileError where times do not fit."""
    del choice
    rows: dict[int | None, list[dict[str, Any]]] = defaultdict(list)
    at, places, skipped = 0, [], 0
    while (at := content.raw.find(_MARK, at)) >= 0:
        start = content.raw.rfind(b"\n", 0, at) + 1
        end = content.raw.find(b"\n", at)
        line = content.raw[start : end if end >= 0 else len(content.raw)]
        at += len(_MARK)
        if (found := _LINE.search(line)) is None:
            skipped += 1
            places += [Place(content.path.name, start, "a line of the logger that is not whole")]
            continue
        rows[int(found["rank"]) if found["rank"] else None].append(_row(found))
    if skipped and not rows:
        rows[None] = []
    name = content.path.name
    recordings = []
    for place, (rank, each) in enumerate(sorted(rows.items(), key=lambda item: item[0] or 0)):
        lost = skipped if not place else 0
        said = (
            *content.warnings,
            *((f"'{name}' has {lost} torn lines: left out",) if lost else ()),
        )
        quality = Quality(
            events=len(each) + lost,
            skipped=lost,
            warnings=() if place else said,
            places=() if place else tuple(places[:_PLACES]),
            unknown=_UNKNOWN,
        )
        spans = one_after_another(str(content.path), each)
        samples = pl.DataFrame(schema=COUNTS)
        recordings.append(Recording(name, rank, None, None, spans, samples, (), (), False, quality))
    return tuple(recordings)


def _row(found: re.Match[bytes]) -> dict[str, Any]:
    name = found["name"].decode()
    return {
        "stream": "collectives",
        "kind": kind_of(name).value,
        "name": name,
        "nbytes": round(float(found["size"]) * _UNITS[found["unit"]]),
        "ns": round(float(found["ms"]) * 1e6),
    }
