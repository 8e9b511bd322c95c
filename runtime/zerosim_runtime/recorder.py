"""What a rank writes down: rows in issue order, kept in memory during a step, then in its own file.

Three files a rank: `rank-R.jsonl`, written after each step and at the end, however it comes; and two
of mapped bytes that outlive even a killed process: `rank-R.now` with the op under way, and
`rank-R.ring` with the last collectives.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from io import BufferedWriter
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from zerosim.kinds import PREFIX, Kind
from zerosim_runtime.collectives import Handle, Watcher
from zerosim_runtime.memory import Memory
from zerosim_runtime.records import NOW
from zerosim_runtime.ring import Ring, open_ring


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
    ring: Ring
    now: Callable[[], int] = time.perf_counter_ns
    rows: list[Row] = field(default_factory=list)

    def begin(self, op: int) -> Row:
        """The host has come to an op: everything before it was issued."""
        row = Row(op, self.now())
        self.rows.append(row)
        NOW.pack_into(self.progress, 0, op, row.issued_ns)
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

    def close(self, status: str, message: str = "") -> None:
        """Write what is left, and how it ended; on a full disk only the ring has room for that."""
        self.ring.say(status, message)
        try:
            self.flush(everything=True)
            self.write(status=status, message=message, time=self.now())
            self.file.close()
            self.progress.close()
        except OSError:
            if status == "finished":
                raise


def open_recorder(
    directory: Path,
    rank: int,
    memory: Memory,
    header: dict[str, Any],
    ring: Ring | None = None,
) -> Recorder:
    """Start a rank's files; `header` is the first line of its record, `ring` one that is open already."""
    now = directory / f"rank-{rank}.now"
    now.write_bytes(NOW.pack(-1, 0))
    with now.open("r+b") as file:
        progress = mmap.mmap(file.fileno(), NOW.size)
    record = (directory / f"rank-{rank}.jsonl").open("wb")
    recorder = Recorder(record, progress, memory, ring or open_ring(directory, rank), memory.now)
    recorder.write(header=header)
    recorder.flush()
    return recorder


def noting(ring: Ring, group: str) -> Watcher:
    """A watcher that notes a communicator's collectives in the ring, and when each has ended."""
    seqs = count()

    def note(handle: Handle, kind: Kind, elements: int) -> None:
        unit = handle.name.removeprefix(PREFIX.get(kind, ""))
        number = ring.issue(group, next(seqs), kind.value, unit, handle.issued_ns, elements)
        handle.on_end.append(partial(ring.end, number))

    return note
