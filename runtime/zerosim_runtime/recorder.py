"""What a rank writes down: rows in issue order, kept in memory during a step, then in its own file.

Two files a rank: `rank-R.jsonl`, written after each step and at the end, however it comes; and
`rank-R.now`, a few mapped bytes with the op under way, which outlive even a killed process.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim_runtime.clock import Offset
from zerosim_runtime.collectives import Handle
from zerosim_runtime.memory import Change, Memory

_NOW: Final = struct.Struct("<qq")  # op under way (-1: none yet), when it began


@dataclass(slots=True)
class Row:
    """One op as this rank did it; perf_counter nanoseconds, None: not yet known."""

    op: int
    issued_ns: int
    start_ns: int | None = None
    end_ns: int | None = None
    handle: Handle | None = None

    def settle(self) -> bool:
        """Take over the times of a collective that has ended; whether all times are known."""
        if self.handle is not None:
            self.issued_ns = self.handle.issued_ns
            self.start_ns, self.end_ns = self.handle.start_ns, self.handle.end_ns
        return self.end_ns is not None


@dataclass(slots=True)
class Recorder:
    """The record of a rank. Nothing is written while a step runs."""

    file: BufferedWriter
    progress: mmap.mmap
    memory: Memory
    now: Callable[[], int] = time.perf_counter_ns
    rows: list[Row] = field(default_factory=list)

    def begin(self, op: int) -> Row:
        """The host has come to an op: everything before it was issued."""
        row = Row(op, self.now())
        self.rows.append(row)
        _NOW.pack_into(self.progress, 0, op, row.issued_ns)
        return row

    def write(self, **fields: Any) -> None:  # noqa: ANN401 - a line of JSON
        """Append one line."""
        self.file.write(orjson.dumps(fields) + b"\n")

    def flush(self, *, everything: bool = False) -> None:
        """Write the rows whose times are known, in order; with `everything` the others too."""
        done = 0
        for row in self.rows:
            if not row.settle() and not everything:
                break
            self.write(row=[row.op, row.issued_ns, row.start_ns, row.end_ns])
            done += 1
        del self.rows[:done]
        for change in self.memory.changes:
            self.write(memory=[change.time_ns, change.kind, change.nbytes])
        self.memory.changes.clear()
        self.file.flush()

    def close(self, status: str, message: str = "", op: int | None = None) -> None:
        """Write what is left, and how it ended."""
        self.flush(everything=True)
        self.write(status=status, message=message, op=op, time=self.now())
        self.file.close()
        self.progress.close()


def open_recorder(directory: Path, rank: int, memory: Memory, header: dict[str, Any]) -> Recorder:
    """Start a rank's files; `header` is the first line of its record."""
    now = directory / f"rank-{rank}.now"
    now.write_bytes(_NOW.pack(-1, 0))
    with now.open("r+b") as file:
        progress = mmap.mmap(file.fileno(), _NOW.size)
    recorder = Recorder((directory / f"rank-{rank}.jsonl").open("wb"), progress, memory)
    recorder.write(header=header)
    recorder.flush()
    return recorder


@dataclass(frozen=True, slots=True)
class Record:
    """A rank's files, read back. `status` is None if the rank was killed."""

    rank: int
    header: dict[str, Any]
    rows: tuple[tuple[int, int, int | None, int | None], ...]
    changes: tuple[Change, ...]
    losses: tuple[tuple[int, float], ...]
    offsets: tuple[Offset, ...]
    status: str | None
    message: str
    ended_ns: int | None
    last_op: int


def read_record(directory: Path, rank: int) -> Record | None:
    """What a rank wrote, up to the first line that is not whole; None if it wrote nothing."""
    try:
        content = (directory / f"rank-{rank}.jsonl").read_bytes()
        last_op, _ = _NOW.unpack((directory / f"rank-{rank}.now").read_bytes())
    except (OSError, struct.error):
        return None
    lines: list[dict[str, Any]] = []
    for text in content.splitlines():
        try:
            line = orjson.loads(text)
        except orjson.JSONDecodeError:
            break
        lines.append(line)
    if not lines or "header" not in lines[0]:
        return None
    end = next((line for line in lines if "status" in line), {})
    return Record(
        rank=rank,
        header=lines[0]["header"],
        rows=tuple(tuple(line["row"]) for line in lines if "row" in line),
        changes=tuple(Change(*line["memory"]) for line in lines if "memory" in line),
        losses=tuple((line["step"], line["loss"]) for line in lines if "loss" in line),
        offsets=tuple(Offset(*line["offset"]) for line in lines if "offset" in line),
        status=end.get("status"),
        message=end.get("message", ""),
        ended_ns=end.get("time"),
        last_op=last_op,
    )
