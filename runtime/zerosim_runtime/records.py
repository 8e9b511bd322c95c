"""What ranks wrote down, read back; without torch, so that the launcher need not load it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

NOW: Final = struct.Struct("<qq")
"""The content of `rank-R.now`: the op under way (-1: none yet), and when it began."""


@dataclass(frozen=True, slots=True)
class Change:
    """`nbytes` more (or fewer) of a memory kind, in host order."""

    time_ns: int
    kind: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Offset:
    """A rank's clock minus rank 0's, as of `at_ns` on rank 0's clock; off by `error_ns` at most."""

    rank: int
    at_ns: int
    offset_ns: int
    error_ns: int


@dataclass(frozen=True, slots=True)
class Done:
    """One op as one rank did it, in issue order; None: not known, since it never ended."""

    op: int
    issued_ns: int
    start_ns: int | None
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class Record:
    """A rank's files, read back. `status` is None if the rank was killed."""

    rank: int
    header: dict[str, Any]
    rows: tuple[Done, ...]
    changes: tuple[Change, ...]
    losses: tuple[tuple[int, float], ...]
    offsets: tuple[Offset, ...]
    status: str | None
    message: str
    ended_ns: int | None
    last_op: int

    @property
    def last_ns(self) -> int:
        """The last time that is known of this rank."""
        times = [self.ended_ns, *(t for d in self.rows for t in (d.issued_ns, d.end_ns))]
        return max(t for t in times if t is not None)


def read_record(directory: Path, rank: int) -> Record | None:
    """What a rank wrote, up to the first line that is not whole; None if it wrote nothing."""
    try:
        content = (directory / f"rank-{rank}.jsonl").read_bytes()
        last_op, _ = NOW.unpack((directory / f"rank-{rank}.now").read_bytes())
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
        rows=tuple(Done(*line["row"]) for line in lines if "row" in line),
        changes=tuple(Change(*line["memory"]) for line in lines if "memory" in line),
        losses=tuple((line["step"], line["loss"]) for line in lines if "loss" in line),
        offsets=tuple(Offset(*line["offset"]) for line in lines if "offset" in line),
        status=end.get("status"),
        message=end.get("message", ""),
        ended_ns=end.get("time"),
        last_op=last_op,
    )


def steps_done(directory: Path) -> int:
    """Steps that rank 0 has written down so far."""
    try:
        return (directory / "rank-0.jsonl").read_bytes().count(b'"loss":')
    except OSError:
        return 0


def shift(offsets: tuple[Offset, ...], time_ns: int) -> int:
    """What to add to a rank's time to get rank 0's: drift is a straight line between two offsets."""
    if not offsets:
        return 0
    first, last = offsets[0], offsets[-1]
    if last.at_ns == first.at_ns:
        return -first.offset_ns
    share = (time_ns - first.offset_ns - first.at_ns) / (last.at_ns - first.at_ns)
    share = min(1.0, max(0.0, share))
    return -round(first.offset_ns + share * (last.offset_ns - first.offset_ns))
