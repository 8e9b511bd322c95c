"""Logs of nccl-tests: a table of sizes and times, each row the mean of some collectives of one kind."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
from zerosim.importers.json_lines import Faults
from zerosim.importers.kineto.facts import dtype_of, kind_of
from zerosim.importers.recording import Recording, remarks
from zerosim.importers.untimed import logged
from zerosim.kinds import Kind
from zerosim.trace import Group
from zerosim.units import DTYPE_BYTES

_HEAD: Final = re.compile(r"#\s+size\s+count\s+type\s+(?:redop\s+)?(?:root\s+)?time\s")
_RANK: Final = re.compile(r"#\s+Rank\s+(\d{1,7})\s.{0,300}?\[0x[0-9a-f]+\]\s*(.{0,80})$")
_PROGRAM: Final = re.compile(r"\b([a-z_]{2,30})_perf\b")
_ROW: Final = re.compile(r"^\s*(\d{1,18})\s+(\d{1,18})\s+([a-z][a-z0-9_]{1,20})\s+(\S.*)$")
_DECIMAL: Final = re.compile(r"\d\.\d")
_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,12})?")
_OPERATION: Final = re.compile(r"[a-z]+|-?\d{1,7}")
"""The cells between type and time: `sum`, and the root's rank."""
_TORN: Final = "a row that is not whole"
_SIDES: Final = ((0, "out of place"), (4, "in place"))
_WHOLE: Final = (3, 4, 8)
"""Cells from the time on: time, algbw, busbw, error; the same in place."""
_TELLING: Final = 1.0
"""GB/s; rates are printed with two decimals, so that slower ones tell nothing."""
_CLOSE: Final = 0.02
_LONGEST: Final = 2048
_UNKNOWN: Final = (
    "when a collective ran: rows are laid out one after the other",
    "what each rank did: a row is the mean of many collectives, over all ranks",
)
_Row = tuple[dict[str, Any], float, float]


def sniff(raw: bytes) -> bool:
    """Whether `raw` has the head of a table of nccl-tests."""
    at = raw.find(b"  size ")
    while at >= 0:
        if _HEAD.search(raw[max(0, at - 20) : at + 200].decode("latin-1")):
            return b"\0" not in raw[:4096]
        at = raw.find(b"  size ", at + 1)
    return False


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """One recording, as of rank 0, which wrote the log. Raises TraceFileError where times do not fit."""
    rows: list[_Row] = []
    torn: dict[int, str] = {}
    lengths: list[tuple[int, int]] = []
    ranks: dict[int, str] = {}
    program, columns, n_rows, at = "", "", 0, 0
    for raw in content.raw.splitlines(keepends=True):
        line = raw[:_LONGEST].decode("utf-8", errors="replace").rstrip()
        if (head := _HEAD.search(line)) is not None:
            columns = head[0]
            torn |= _shorter(lengths)
            lengths = []
            if _DECIMAL.search(line):  # heads have no numbers
                n_rows += 1
                torn[at] = "a row that is torn into the head of the table"
        elif (rank := _RANK.search(line)) is not None:
            ranks[int(rank[1])] = rank[2].strip()
        elif line.lstrip().startswith("#") and (named := _PROGRAM.search(line)) is not None:
            program = named[1]
        elif columns and (row := _ROW.match(line)) is not None:
            n_rows += 1
            between = columns.split().index("time") - 4
            operation, cells = row[4].split()[:between], row[4].split()[between:]
            rows += (sides := _sides(row, cells))
            lengths.append((at, len(cells)))
            if len(sides) < _expected(cells) or not all(map(_OPERATION.fullmatch, operation)):
                torn[at] = _TORN
        elif columns and len(_DECIMAL.findall(line)) >= 3:  # noqa: PLR2004 - time and two rates
            n_rows += 1
            torn[at] = "a row whose sizes cannot be read"
        at += len(raw)
    faults = Faults()
    for place, what in sorted((torn | _shorter(lengths)).items()):
        faults.skipped += 1
        faults.note(content, place, what)
    kind = _kind(program, columns, rows, len(ranks))
    told = [row | {"kind": kind.value} for row, _, _ in rows]
    writer = 0 if choice.rank is None else None  # whoever gives the rank is believed
    (recording,) = logged(content, {writer: told}, faults, _UNKNOWN)
    return (_described(recording, ranks, n_rows),)


def _shorter(lengths: list[tuple[int, int]]) -> dict[int, str]:
    """The rows of a table (byte, cells) that have fewer cells than others of it."""
    longest = max((length for _, length in lengths), default=0)
    return {at: _TORN for at, length in lengths if length < longest}


def _expected(cells: list[str]) -> int:
    """How many sides a row should have: two, or one where it stands alone or the other is N/A."""
    if len(cells) not in _WHOLE:
        return 3
    return sum(cells[at : at + 3] not in ([], ["N/A"] * 3) for at, _ in _SIDES)


def _sides(found: re.Match[str], cells: list[str]) -> list[_Row]:
    rows: list[_Row] = []
    for at, side in _SIDES:
        numbers = [cell for cell in cells[at : at + 3] if _NUMBER.fullmatch(cell)]
        if len(numbers) == 3:  # noqa: PLR2004 - time, algbw, busbw
            took, algbw, busbw = map(float, numbers)
            dtype, nbytes = dtype_of(found[3]), int(found[1])
            width = DTYPE_BYTES.get(dtype or "")
            row = {
                "stream": side,
                "name": f"{nbytes} B {side}",
                "ns": round(took * 1000),
                "nbytes": nbytes,
                "elements": nbytes // width if width else None,
                "dtype": dtype,
                "group": "world",
            }
            rows.append((row, algbw, busbw))
    return rows


def _kind(program: str, columns: str, rows: list[_Row], n: int) -> Kind:
    """By the name of the program, else by what the ratio of the two bandwidths leaves over.

    All-gather and all-to-all have one ratio, as have broadcast, send and receive: those stay unknown.
    """
    if (named := kind_of(program)) is not Kind.COLLECTIVE:
        return named
    told = [busbw / algbw for _, algbw, busbw in rows if algbw >= _TELLING]
    ratio = sorted(told)[len(told) // 2] if told else 0.0
    if n > 2 and abs(ratio - 2 * (n - 1) / n) < _CLOSE:  # noqa: PLR2004 - of two it is 1, like others
        return Kind.ALL_REDUCE
    if "redop" in columns and "root" not in columns and abs(ratio - (n - 1) / max(n, 1)) < _CLOSE:
        return Kind.REDUCE_SCATTER if n > 2 else Kind.COLLECTIVE  # noqa: PLR2004
    return Kind.COLLECTIVE


def _described(recording: Recording, ranks: dict[int, str], n_rows: int) -> Recording:
    """`recording` with all that the log says of the run; its events are rows, which have two sides."""
    n, kinds = len(ranks), set(recording.spans["kind"])
    notes = (
        (not kinds, "has no times: its table is empty"),
        (Kind.COLLECTIVE in kinds, "does not say which collective it measured"),
        (not n, "does not list its ranks"),
    )
    quality = recording.quality
    said = (*quality.warnings, *remarks(recording.source, notes))
    return replace(
        recording,
        world_size=n or None,
        device=next((device for device in ranks.values() if device), None),
        groups=(Group("world", n, tuple(range(n))),) if n else (),
        quality=replace(quality, events=n_rows, warnings=said),
    )
