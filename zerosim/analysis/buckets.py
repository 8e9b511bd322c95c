"""How the gradient buckets of a rank fill up and are sent away."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from zerosim.kinds import COMMUNICATION, Kind
from zerosim.trace import Flag, Trace, flagged


@dataclass(frozen=True, slots=True)
class BucketFill:
    """A bucket's content over time: `nbytes[i]` from `times_ns[i]` on; 0 again once it is sent.

    What is sent at `sent_ns[i]` is on its way until `done_ns[i]`.
    """

    bucket: int
    times_ns: tuple[int, ...]
    nbytes: tuple[int, ...]
    sent_ns: tuple[int, ...]
    done_ns: tuple[int, ...] = ()


@dataclass(slots=True)
class _Line:
    times: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    level: int = 0


def bucket_fills(trace: Trace, rank: int) -> tuple[BucketFill, ...]:
    """The fill of each bucket of `rank`, by bucket; empty if its run says nothing of buckets.

    A bucket grows when a `fill` ends, and is empty when the collective that reduces it starts.
    """
    rows = trace.spans.filter(
        (pl.col("rank") == rank) & pl.col("bucket").is_not_null() & ~flagged(Flag.UNTIMED)
    ).select("bucket", pl.col("kind").cast(pl.String), "start_ns", "end_ns", "nbytes")
    lines: dict[int, _Line] = {}
    for bucket, kind, start, end, nbytes in rows.iter_rows():
        line = lines.setdefault(bucket, _Line())
        if kind == Kind.FILL and nbytes is not None:
            line.level += nbytes
            line.times.append(end)
            line.levels.append(line.level)
        elif kind in COMMUNICATION and kind != Kind.ALL_GATHER and line.level:
            line.level = 0
            line.times.append(start)
            line.levels.append(0)
            line.sent.append(start)
            line.done.append(end)
    return tuple(
        BucketFill(
            bucket, tuple(line.times), tuple(line.levels), tuple(line.sent), tuple(line.done)
        )
        for bucket, line in sorted(lines.items())
        if line.times
    )
