"""What a rank of a traced program writes down: kept in lists, in its own file after each step.

Two files a rank, as for plan runs: `rank-R.jsonl` (a header, then one line of JSON a fact) and
`rank-R.ring`, which outlives even a killed process (`zerosim_runtime.ring`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim.errors import ScenarioError
from zerosim_runtime.records import Offset
from zerosim_runtime.ring import Ring, open_ring
from zerosim_runtime.tracing.hook import note_problem
from zerosim_runtime.tracing.spans import Span

Steps = tuple[int, int]
"""The first and the last step to keep."""
_OPEN: Final = 2**31 - 1
_MAX_HELD: Final = 20_000
"""Facts held in memory at most; a program without steps is written down as often as that."""


@dataclass(slots=True)
class Tracer:
    """The record of a rank. Times are perf_counter nanoseconds of this host.

    Any thread may add; nothing is written but by `flush` and `close`. A forked child's tracer is not
    `live`: whatever it adds goes nowhere.
    """

    rank: int
    directory: Path
    file: FileIO
    ring: Ring
    steps: Steps | None = None
    now: Callable[[], int] = time.perf_counter_ns
    live: bool = True
    problem: str = ""
    spans: list[Span] = field(default_factory=list)
    samples: list[tuple[int, str, int]] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)
    watchers: list[Callable[[int], None]] = field(default_factory=list)
    """Told of every step that has ended."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, span: Span) -> None:
        """Note an op whose times are known, or that will have none; in any order."""
        if self.live and self._kept(span.step):
            self.spans.append(span)
            if len(self.spans) > _MAX_HELD:
                self.flush()

    def sample(self, time_ns: int, counter: str, value: int) -> None:
        """From `time_ns` on, `counter` has `value`; what does not change it is left out."""
        if self.live and self.last.get(counter) != value:
            self.last[counter] = value
            self.samples.append((time_ns, counter, value))

    def group(self, name: str, ranks: Sequence[int]) -> None:
        """Note a process group before its first collective: `ranks` are global ones."""
        self.write(group=[name, list(ranks)])

    def step(self, step: int, start_ns: int, end_ns: int) -> None:
        """Note that a training step has ended, and write what was added so far."""
        if self._kept(step):
            self.write(step=[step, start_ns, end_ns])
        self.flush()
        for watcher in tuple(self.watchers) if self.live else ():
            try:
                watcher(step)
            except Exception as error:  # noqa: BLE001 - the program goes on, whatever they cannot do
                self.watchers.remove(watcher)
                note_problem(self.directory, f"rank {self.rank}: {type(error).__name__}: {error}")

    def offset(self, offset: Offset) -> None:
        """Note how far the clock of another rank is ahead (rank 0 does)."""
        self.write(offset=[offset.rank, offset.at_ns, offset.offset_ns, offset.error_ns])

    def fact(self, name: str, value: str | int) -> None:
        """Note what is true of this rank and was not known at the start, such as its engine."""
        self.write(fact=[name, value])

    def flush(self) -> None:
        """Write what was added so far."""
        with self.lock:
            spans, self.spans = self.spans, []
            samples, self.samples = self.samples, []
        lines: list[dict[str, Any]] = [span.line() for span in spans]
        lines += [{"sample": list(sample)} for sample in samples]
        self._write(lines)

    def write(self, **fields: Any) -> None:  # noqa: ANN401 - a line of JSON
        """Append one line at once."""
        self._write([fields])

    def close(self, status: str, message: str = "") -> None:
        """Write what is left, and how it ended: finished, failed or terminated. Later calls do nothing."""
        if not self.live:
            return
        self.flush()
        self.write(status=status, message=message, time=self.now())
        # For this there is room even on a full disk.
        self.ring.say(status, message)
        self.live = False
        self.file.close()

    def abandon(self) -> None:
        """Become the tracer of a forked child: nothing that it does is written down."""
        self.live = False
        self.file.close()
        self.spans, self.samples, self.lock = [], [], threading.Lock()
        self.ring = Ring(mmap.mmap(-1, len(self.ring.pages)))

    def _kept(self, step: int | None) -> bool:
        if self.steps is None:
            return True
        return step is not None and self.steps[0] <= step <= self.steps[1]

    def _write(self, lines: list[dict[str, Any]]) -> None:
        # Unbuffered: a fork in between would write a buffer twice.
        rest = b"".join(orjson.dumps(line) + b"\n" for line in lines) if self.live else b""
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            # The program goes on without its tracer; what is written stays readable.
            self.live = False
            self.problem = str(error)


def open_tracer(
    directory: Path, rank: int, header: dict[str, Any], steps: Steps | None = None
) -> Tracer:
    """Start a rank's files; those of an earlier attempt are replaced.

    Raises OSError, BlockingIOError among them if a living process writes as that rank.
    """
    path = directory / f"rank-{rank}.jsonl"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    file = FileIO(descriptor, "ab")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        tracer = Tracer(rank, directory, file, open_ring(directory, rank), steps)
    except OSError:
        file.close()
        raise
    tracer.write(header=header)
    os.register_at_fork(after_in_child=tracer.abandon)
    return tracer


def steps_of(text: str | None) -> Steps | None:
    """`A:B` as the first and the last step to keep; a missing end is open. Raises ScenarioError."""
    if not text:
        return None
    first, colon, last = text.partition(":")
    try:
        steps = int(first or 1), int(last or _OPEN) if colon else int(first)
    except ValueError:
        steps = (0, 0)
    if not 1 <= steps[0] <= steps[1]:
        raise ScenarioError(f"steps is '{text}': give the first and the last to keep, as 3:5")
    return steps
