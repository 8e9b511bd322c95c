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
from zerosim_runtime.cuda import Stamp, Stamps, stamps_of
from zerosim_runtime.memory import Memory
from zerosim_runtime.records import NOW
from zerosim_runtime.ring import Ring, open_ring

Moment = int | Stamp
"""Perf_counter nanoseconds, or, on a GPU, what will be that once its stream has come there."""


@dataclass(slots=True)
class Row:
    """One op as this rank did it; None: not yet known."""

    op: int
    issued_ns: int
    start: Moment | None = None
    end: Moment | None = None
    handle: Handle | None = None

    def times(self) -> tuple[int, int | None, int | None]:
        """When it was issued, began and ended, as far as is known, in perf_counter nanoseconds."""
        if self.handle is not None:
            return self.handle.issued_ns, self.handle.start_ns, self.handle.end_ns
        return self.issued_ns, _read(self.start), _read(self.end)


@dataclass(slots=True)
class Recorder:
    """The record of a rank. Nothing is written while a step runs."""

    file: BufferedWriter
    progress: mmap.mmap
    memory: Memory
    ring: Ring
    now: Callable[[], int] = time.perf_counter_ns
    stamps: Stamps | None = None
    rows: list[Row] = field(default_factory=list)

    def begin(self, op: int) -> Row:
        """The host has come to an op: everything before it was issued."""
        row = Row(op, self.now())
        self.rows.append(row)
        NOW.pack_into(self.progress, 0, op, row.issued_ns)
        self.memory.look()
        return row

    def moment(self) -> Moment:
        """Now: on a GPU, when its current stream has done what it was given so far."""
        return self.now() if self.stamps is None else self.stamps()

    def write(self, **fields: Any) -> None:  # noqa: ANN401 - a line of JSON
        """Append one line."""
        self.file.write(orjson.dumps(fields) + b"\n")

    def flush(self, *, everything: bool = False) -> None:
        """Write the rows whose times are known, in order; with `everything` the others too."""
        done = 0
        for row in self.rows:
            issued, start, end = row.times()
            if end is None and not everything:
                break
            self.write(row=[row.op, issued, start, end])
            done += 1
        del self.rows[:done]
        for change in self.memory.changes:
            self.write(memory=[change.time_ns, change.kind, change.nbytes])
        self.memory.changes.clear()
        self.file.flush()

    def close(self, status: str, message: str = "") -> None:
        """Write what is left, and how it ended; on a full disk only the ring has room for that."""
        self.ring.say(status, message)
        if status == "finished":
            for row in self.rows:
                if row.handle is not None:
                    row.handle.done.wait()
        try:
            self.flush(everything=True)
            self.write(status=status, message=message, time=self.now())
            self.file.close()
            self.progress.close()
        except OSError:
            if status == "finished":
                raise


def _read(moment: Moment | None) -> int | None:
    return moment.read() if isinstance(moment, Stamp) else moment


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
    stamps = stamps_of(memory.device) if memory.device.type == "cuda" else None
    ring = ring or open_ring(directory, rank)
    recorder = Recorder(record, progress, memory, ring, memory.now, stamps)
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
