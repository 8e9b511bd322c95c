"""What the ranks of a traced program wrote down, read back; without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from zerosim.errors import TraceFileError
from zerosim_runtime.places import Where, content_of, places, ranks_in
from zerosim_runtime.records import Offset
from zerosim_runtime.ring import Noted, read_life, read_ring
from zerosim_runtime.tracing.spans import Span, span_of


@dataclass(slots=True)
class Log:
    """A rank's files. `status` is None if it left no last word; `noted` is its ring."""

    rank: int
    header: dict[str, Any]
    spans: list[Span] = field(default_factory=list)
    samples: list[tuple[int, str, int]] = field(default_factory=list)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    offsets: list[Offset] = field(default_factory=list)
    facts: dict[str, str | int] = field(default_factory=dict)
    noted: tuple[Noted, ...] = ()
    status: str | None = None
    message: str = ""
    ended_ns: int | None = None
    cut: bool = False
    """Whether the file breaks off in the middle of a line."""


def read_log(directory: Path, rank: int) -> Log | None:
    """What a rank wrote, up to the first line that is not whole; None if it wrote nothing.

    Raises RunError for a file that no rank wrote.
    """
    content = content_of(directory / f"rank-{rank}.jsonl") or b""
    log: Log | None = None
    for text in content.splitlines():
        try:
            line = orjson.loads(text)
            if log is None:
                log = Log(rank, line["header"], noted=read_ring(directory, rank))
            else:
                _take(log, line)
        except (ValueError, TypeError, KeyError, TraceFileError):
            if log is not None:
                log.cut = True
            break
    life = read_life(directory, rank) if log is not None and log.status is None else None
    if log is not None and life is not None and life.status:
        log.status, log.message = life.status, life.message
    return log


def read_logs(where: Where) -> tuple[Log, ...]:
    """The logs of all ranks that left one, by rank; of several launches, the last one's.

    Raises RunError for files that no rank wrote.
    """
    found = (read_log(place, rank) for place in places(where) for rank in ranks_in(place))
    logs = [log for log in found if log is not None and "world_size" in log.header]
    last = max((log.header for log in logs), key=lambda h: int(h["unix_ns"]), default={})
    same = {log.rank: log for log in logs if log.header.get("launch") == last.get("launch")}
    return tuple(same[rank] for rank in sorted(same))


def _take(log: Log, line: dict[str, Any]) -> None:
    match line:
        case {"span": values}:
            log.spans.append(span_of(values))
        case {"sample": [time_ns, counter, value]}:
            log.samples.append((time_ns, counter, value))
        case {"group": [name, ranks]}:
            log.groups[name] = tuple(ranks)
        case {"step": [step, start_ns, end_ns]}:
            log.steps.append((step, start_ns, end_ns))
        case {"offset": values}:
            log.offsets.append(Offset(*values))
        case {"fact": [name, value]}:
            log.facts[name] = value
        case {"status": status}:
            log.status, log.message = status, line.get("message", "")
            log.ended_ns = line.get("time")
        case _:
            raise ValueError(line)
