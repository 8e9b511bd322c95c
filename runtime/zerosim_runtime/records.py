"""What ranks wrote down, read back; without torch, so that the launcher need not load it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim.errors import RunError
from zerosim_runtime.places import Where, content_of, places, ranks_in

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
    """A rank's files, read back. `status` is None if the rank was killed.

    `attempt`: when its world came together, later after a restart, the same for all ranks (0: it never did).
    """

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
    attempt: int = 0

    @property
    def first_rank(self) -> int:
        """The first rank of this one's node."""
        return self.rank - int(self.header.get("local_rank", self.rank))

    @property
    def last_ns(self) -> int:
        """The last time that is known of this rank."""
        times = [self.ended_ns, *(t for d in self.rows for t in (d.issued_ns, d.end_ns))]
        return max(t for t in times if t is not None)


def read_record(where: Where, rank: int) -> Record | None:
    """What a rank wrote, up to the first line that is not whole; None if it wrote nothing.

    Of several records of one rank the one of the last attempt counts. Raises RunError for a file that no
    rank wrote, and for two nodes that both were this rank.
    """
    found = [r for place in places(where) if (r := _read(place, rank)) is not None]
    if not found:
        return None
    last = max(record.attempt for record in found)
    latest = [record for record in found if record.attempt == last]
    if len(latest) > 1:
        raise RunError(f"two directories hold records of rank {rank}: give those of one run")
    return latest[0]


def _read(place: Path, rank: int) -> Record | None:
    path = place / f"rank-{rank}.jsonl"
    content, now = content_of(path), content_of(path.with_suffix(".now"))
    if content is None or now is None or len(now) != NOW.size:
        return None
    lines: list[dict[str, Any]] = []
    for text in content.splitlines():
        try:
            line = orjson.loads(text)
        except orjson.JSONDecodeError:
            break
        lines.append(line)
    if not lines:
        return None
    try:
        return _record(rank, lines, NOW.unpack(now)[0])
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise RunError(f"'{path}' is not what a rank writes ({error}): copy it again") from None


def _record(rank: int, lines: list[dict[str, Any]], last_op: int) -> Record | None:
    if "header" not in lines[0]:
        return None
    end = next((line for line in lines if "status" in line), {})
    return Record(
        rank=rank,
        header=_header(rank, lines[0]["header"]),
        rows=tuple(Done(*_times(line["row"], 4)) for line in lines if "row" in line),
        changes=tuple(_change(line["memory"]) for line in lines if "memory" in line),
        losses=tuple(_loss(line) for line in lines if "loss" in line),
        offsets=tuple(_offset(line["offset"]) for line in lines if "offset" in line),
        status=end.get("status"),
        message=str(end.get("message", "")),
        ended_ns=_time(end.get("time")),
        last_op=last_op,
        attempt=next((_count(line["attempt"]) for line in lines if "attempt" in line), 0),
    )


def check_header(record: Record) -> None:
    """Refuse a header without what a rank says of itself. Raises RunError."""
    header = record.header
    words = ("backend", "device", "clock", "host", "torch", "python")
    wrong = [name for name in words if not isinstance(header.get(name), str)]
    wrong += [name for name in ("unix_ns", "threads") if not _is_time(header.get(name))]
    if wrong:
        raise RunError(f"the record of rank {record.rank} has no '{wrong[0]}': copy it again")


def _header(rank: int, header: dict[str, Any]) -> dict[str, Any]:
    if header.get("rank", rank) != rank or not _is_time(header.get("local_rank", 0)):
        raise ValueError("its header is of another rank")
    return header


def _times(values: list[Any], size: int) -> list[Any]:
    if len(values) != size or not all(map(_is_time, values[:2])):
        raise ValueError(f"a line has {str(values)[:60]}")
    return [*values[:2], *map(_time, values[2:])]


def _count(value: object) -> int:
    return _time(value) or 0


def _time(value: object) -> int | None:
    if value is not None and not _is_time(value):
        raise ValueError(f"'{str(value)[:40]}' is no time")
    return value if isinstance(value, int) else None


def _is_time(value: object) -> bool:
    """A count or nanoseconds, small enough that sums of them fit their column."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62


def _change(values: list[Any]) -> Change:
    time_ns, kind, nbytes = values
    if not (isinstance(kind, str) and _is_time(time_ns) and _is_time(nbytes)):
        raise ValueError(f"a change of memory is {str(values)[:80]}")
    return Change(time_ns, kind, nbytes)


def _loss(line: dict[str, Any]) -> tuple[int, float]:
    return int(line["step"]), float("nan") if line["loss"] is None else float(line["loss"])


def _offset(values: list[Any]) -> Offset:
    rank, at_ns, offset_ns, error_ns = values
    if not all(map(_is_time, values)):
        raise ValueError(f"an offset is {str(values)[:80]}")
    return Offset(rank, at_ns, offset_ns, error_ns)


def of_one_attempt(records: Iterable[Record | None]) -> list[Record | None]:
    """None in the place of those that are of an earlier attempt than the others."""
    found = list(records)
    last = max((record.attempt for record in found if record is not None), default=0)
    return [r if r is not None and r.attempt == last else None for r in found]


def steps_done(directory: Path) -> int:
    """Steps that the first rank in `directory` has written down so far."""
    ranks = ranks_in(directory)
    try:
        return (directory / f"rank-{ranks[0]}.jsonl").read_bytes().count(b'"loss":') if ranks else 0
    except OSError:
        return 0
