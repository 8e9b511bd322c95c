"""What each rank did, op by op in issue order: collectives, and runs of computing between them.

# Note [What waited for what]
A trace has times and no dependencies. If computing began after a gap in which a collective ended, it
waited for that collective, and the gap up to there is no work: a gap of its stream, or of the host
where that is what computes. Likewise a collective that began after its queue was free, when computing
ended. What never had to wait shows nothing, so that units speak for it: a layer computes after its
unit was gathered, an update after all reductions of its step, a reduction after what was computed.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from zerosim.kinds import COMMUNICATION, COMPUTE, MEMORY, PREFIX, Kind
from zerosim.trace import Flag, Trace, flagged

_LAST: Final = 2**63
_BUSY: Final = (*COMPUTE, *MEMORY)
_COLUMNS: Final = (
    *("rank", "stream", "kind", "name", "unit", "issued_ns", "start_ns", "end_ns", "step"),
    *("micro_batch", "collective", "group", "elements", "nbytes", "dtype", "bucket"),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One op of one rank, as it was.

    `issued_ns` is when the host came to it, or began it if that is unknown. It waited for the
    collectives `awaited`, the last of which had ended at `ready_ns`, and, once begun, for `waited_ns`.
    """

    kind: Kind
    name: str
    unit: str | None
    stream: str
    issued_ns: int
    start_ns: int
    end_ns: int
    step: int
    micro_batch: int = 0
    collective: int | None = None
    group: str | None = None
    elements: int | None = None
    nbytes: int | None = None
    dtype: str | None = None
    bucket: int | None = None
    awaited: frozenset[int] = frozenset()
    ready_ns: int | None = None
    waited_ns: int = 0

    @property
    def communicates(self) -> bool:
        """Whether it is a collective."""
        return self.kind in COMMUNICATION

    @property
    def duration_ns(self) -> int:
        """How long it took, without what it waited."""
        return max(0, self.end_ns - self.start_ns - self.waited_ns)


def pieces_of(trace: Trace, *, fine: bool, blocking: bool) -> dict[int, list[Piece]]:
    """The pieces of every rank that has rows, in issue order.

    `fine`: computing is cut where its kind or unit changes; else there are two pieces of it a stream
    between two collectives, up to its first wait and from there on, of no length where a rank had
    nothing to do there.
    `blocking`: computing keeps the host busy (a CPU).
    """
    by_rank: dict[int, list[Piece]] = {}
    for row in _same_streams(_window(trace)).iter_rows(named=True):
        by_rank.setdefault(row["rank"], []).append(_piece(row))
    waits = {rank: _waits(each, blocking=blocking) for rank, each in sorted(by_rank.items())}
    if fine:
        return {rank: list(_joined(each)) for rank, each in waits.items()}
    return _filled({rank: list(_slots(each)) for rank, each in waits.items()})


def _window(trace: Trace) -> pl.DataFrame:
    """The spans of the complete steps, from the first to the last; all if no step is known.

    A collective is kept if its members on all ranks are.
    """
    spans = trace.spans.filter(~flagged(Flag.UNTIMED | Flag.UNFINISHED))
    kind = pl.col("kind").cast(pl.String)
    spans = spans.filter(kind.is_in([k.value for k in (*COMMUNICATION, *_BUSY)]))
    at = pl.coalesce("issued_ns", "start_ns")
    windows = pl.DataFrame(
        [(w.rank, w.start_ns, w.end_ns, w.step) for w in trace.meta.steps],
        schema={"rank": pl.Int32, "from": pl.Int64, "to": pl.Int64, "in_step": pl.Int32},
        orient="row",
    ).sort("from")
    inside = pl.lit(value=True)
    if windows.height:
        bounds = windows.group_by("rank").agg(first=pl.col("from").min(), last=pl.col("to").max())
        spans = spans.join(bounds, on="rank", how="left", maintain_order="left")
        inside = at.is_between(pl.col("first"), pl.col("last")).fill_null(value=True)
        spans = spans.with_row_index().with_columns(at=at).sort("at")
        spans = spans.join_asof(
            windows, left_on="at", right_on="from", by="rank", check_sortedness=False
        ).sort("index")
        spans = spans.with_columns(step=pl.coalesce("step", "in_step"))
    spans = spans.with_columns(inside=inside)
    whole = pl.col("inside").all().over("collective")
    tied = pl.col("collective").is_not_null()
    kept = spans.filter(pl.when(tied).then(whole).otherwise(pl.col("inside")))
    # What was issued before the recording began comes first, in the order in which it ran.
    early = pl.col("issued_ns").is_null()
    return kept.sort("rank", ~early, at, maintain_order=True).select(_COLUMNS)


def _same_streams(rows: pl.DataFrame) -> pl.DataFrame:
    """Streams by the names of the first rank's, the busiest for the busiest, where ranks differ in them.

    CUDA numbers its streams in each process by itself.
    """
    names = rows.group_by("rank").agg(pl.col("stream").cast(pl.String).unique().sort())
    if names["stream"].n_unique() <= 1:
        return rows
    moves = pl.col("kind").cast(pl.String).is_in([kind.value for kind in COMMUNICATION])
    rows = rows.with_columns(pl.col("stream").cast(pl.String), moves=moves)
    busy = (
        rows.group_by("rank", "stream", "moves")
        .agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("rank", "moves", "ns", "stream", descending=[False, False, True, False])
        .with_columns(place=pl.int_range(pl.len()).over("rank", "moves"))
    )
    first = busy.filter(pl.col("rank") == busy["rank"].min())
    called = first.select("moves", "place", called="stream")
    known = busy.join(called, on=["moves", "place"], how="left").drop("ns", "place")
    joined = rows.join(known, on=["rank", "stream", "moves"], how="left", maintain_order="left")
    return joined.with_columns(stream=pl.coalesce("called", "stream")).select(rows.columns)


def _piece(row: dict[str, Any]) -> Piece:
    start = row["start_ns"]
    issued = start if row["issued_ns"] is None else row["issued_ns"]
    return Piece(
        kind=Kind(row["kind"]),
        name=row["name"],
        unit=row["unit"],
        stream=row["stream"],
        issued_ns=issued,
        start_ns=start,
        end_ns=row["end_ns"],
        step=1 if row["step"] is None else row["step"],
        micro_batch=row["micro_batch"] or 0,
        collective=row["collective"],
        group=row["group"],
        elements=row["elements"],
        nbytes=row["nbytes"],
        dtype=row["dtype"],
        bucket=row["bucket"],
    )


def _waits(pieces: Iterable[Piece], *, blocking: bool) -> Iterator[Piece]:
    """Every piece with what it waited for; see Note [What waited for what]."""
    ends: list[tuple[int, int]] = []
    free: dict[str, int] = {}
    for piece in pieces:
        queue = "" if blocking else piece.stream
        if piece.collective is not None:
            insort(ends, (piece.end_ns, piece.collective))
        if piece.communicates:
            if blocking:
                free[queue] = max(free.get(queue, 0), piece.issued_ns)
            yield piece
            continue
        before = free.get(queue, piece.start_ns)
        free[queue] = max(before, piece.end_ns)
        gap = ends[
            bisect_right(ends, (before, _LAST)) : bisect_right(ends, (piece.start_ns, _LAST))
        ]
        if gap:
            awaited = frozenset(collective for _, collective in gap)
            yield replace(
                piece, awaited=awaited, ready_ns=gap[-1][0], waited_ns=gap[-1][0] - before
            )
        else:
            yield piece


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Runs of computing of one kind and unit as one piece each."""
    run: Piece | None = None
    for piece in pieces:
        if run is not None and _key(run) == _key(piece) and not piece.communicates:
            run = _longer(run, piece)
            continue
        if run is not None:
            yield run
        run = None if piece.communicates else replace(piece, name=_name(piece), waited_ns=0)
        if piece.communicates:
            yield piece
    if run is not None:
        yield run


def _key(piece: Piece) -> tuple[object, ...]:
    return piece.stream, piece.step, piece.kind, piece.unit


_Place = tuple[str, bool]
"""A stream, and whether it has waited for a collective since the last one was issued."""
_Slot = tuple[dict[_Place, Piece], Piece | None]
"""What was computed in each place, and the collective that was issued then; None: the end."""


def _slots(pieces: Iterable[Piece]) -> Iterator[_Slot]:
    """What each stream computed from one collective's issue to the next one's."""
    runs: dict[_Place, Piece] = {}
    for piece in pieces:
        if piece.communicates:
            yield runs, piece
            runs = {}
            continue
        place = piece.stream, bool(piece.awaited) or (piece.stream, True) in runs
        if place in runs:
            runs[place] = _longer(runs[place], piece)
        else:
            runs[place] = replace(piece, kind=Kind.OTHER, name="computing", unit=None, waited_ns=0)
    yield runs, None


def _filled(slots: dict[int, list[_Slot]]) -> dict[int, list[Piece]]:
    """The slots one after the other, with the same places on all ranks."""
    most = max(map(len, slots.values()), default=0)
    pieces: dict[int, list[Piece]] = {rank: [] for rank in slots}
    at = {rank: _first_issue(each) for rank, each in slots.items()}
    for i in range(most):
        here = {rank: each[i] for rank, each in slots.items() if i < len(each)}
        places = sorted({place for runs, _ in here.values() for place in runs})
        for rank, (runs, collective) in here.items():
            for place in places:
                step = pieces[rank][-1].step if pieces[rank] else 1
                nothing = Piece(
                    Kind.OTHER, "computing", None, place[0], *(at[rank],) * 3, step=step
                )
                pieces[rank].append(runs.get(place, nothing))
                at[rank] = max(at[rank], pieces[rank][-1].issued_ns)
            if collective is not None:
                pieces[rank].append(collective)
                at[rank] = max(at[rank], collective.issued_ns)
    return pieces


def _first_issue(slots: list[_Slot]) -> int:
    """When a rank issued the first of all."""
    return min(
        piece.issued_ns
        for runs, collective in slots
        for piece in (*runs.values(), collective)
        if piece is not None
    )


def _longer(run: Piece, piece: Piece) -> Piece:
    return replace(
        run,
        end_ns=max(run.end_ns, piece.end_ns),
        waited_ns=run.waited_ns + piece.waited_ns,
        awaited=run.awaited | piece.awaited,
    )


def _name(piece: Piece) -> str:
    """A run of kernels is called by its kind and unit; an op that a schedule named keeps its name."""
    prefix = PREFIX.get(piece.kind)
    if prefix is None:
        return str(piece.kind)
    return piece.name if piece.name.startswith(prefix) else prefix + (piece.unit or "")


def keys(pieces: Iterable[Piece]) -> list[tuple[object, ...]]:
    """What must be equal on all ranks for them to run one program."""
    return [
        (p.kind, "" if p.communicates else p.stream, p.unit, p.elements, p.dtype) for p in pieces
    ]
