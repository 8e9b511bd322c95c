"""Logs of DeepSpeed's comms logger, verbose: one line a collective, with its time and rounded size."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
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
_UNITS: Final = {unit: 1024**i for i, unit in enumerate((b"B", b"KB", b"MB", b"GB", b"TB", b"PB"))}
_UNKNOWN: Final = (
    "when a collective began: they are laid out one after the other",
    "overlap: the logger waits for each collective, so its times are not those of a training step",
    "exact sizes: the log rounds them, and does not say whether one is of a shard or of the whole",
    "dtypes, process groups and steps",
)


def sniff(raw: bytes) -> bool:
    """Whether `raw` has a whole line of the comms logger: a text about such logs has parts of one."""
    return _MARK in raw and b"\0" not in raw[:4096] and _LINE.search(raw) is not None


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """A recording for each rank that logged. Raises TraceFileError where times do not fit."""
    del choice
    ranks: dict[int | None, list[dict[str, Any]]] = defaultdict(list)
    raw, faults, at = content.raw, Faults(), 0
    while (at := raw.find(_MARK, at)) >= 0:
        start, end = raw.rfind(b"\n", 0, at) + 1, raw.find(b"\n", at)
        found = _LINE.search(raw[start : end if end >= 0 else len(raw)])
        at += len(_MARK)
        if found:
            ranks[int(found["rank"]) if found["rank"] else None].append(_row(found))
        else:
            faults.skipped += 1
            faults.note(content, start, "a line of the logger that is not whole")
    return logged(content, ranks or {None: []}, faults, _UNKNOWN)


def _row(found: re.Match[bytes]) -> dict[str, Any]:
    name = found["name"].decode()
    return {
        "stream": "collectives",
        "kind": kind_of(name).value,
        "name": name,
        "nbytes": round(float(found["size"]) * _UNITS[found["unit"]]),
        "ns": round(float(found["ms"]) * 1e6),
    }
