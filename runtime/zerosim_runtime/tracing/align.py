"""Logs of several ranks on one clock, and how good that clock is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zerosim.kinds import Kind
from zerosim.trace import Clock
from zerosim_runtime.records import Offset, shift
from zerosim_runtime.ring import Noted
from zerosim_runtime.tracing.log import Log
from zerosim_runtime.tracing.spans import Span


def align(logs: Sequence[Log]) -> tuple[Clock, tuple[Log, ...]]:
    """Logs on a clock that starts with the first op; what only a ring has kept is among their spans.

    Ranks with one clock need nothing. Else rank 0's is the clock, and the others are moved by the offsets
    that it measured; without any (a run that broke early) nothing is moved, and the clock says so.
    """
    whole = [_with_ring(log) for log in logs]
    offsets: dict[int, tuple[Offset, ...]] = {}
    for log in logs:
        for offset in log.offsets:
            offsets[offset.rank] = (*offsets.get(offset.rank, ()), offset)
    shared = len({log.header["clock"] for log in logs}) == 1
    known = shared or all(log.rank == 0 or log.rank in offsets for log in logs)
    first = {log.rank: min((span.issued_ns for span in log.spans), default=None) for log in whole}
    moved = {rank: shift(offsets.get(rank, ()), at or 0) for rank, at in first.items()}
    origin = min((at + moved[rank] for rank, at in first.items() if at is not None), default=0)
    errors = [offset.error_ns for several in offsets.values() for offset in several]
    clock = Clock(
        aligned=known,
        error_ns=(0 if shared else max(errors, default=0)) if known else None,
        offsets_ns=tuple((rank, by) for rank, by in moved.items() if offsets.get(rank)),
    )
    return clock, tuple(_on_clock(log, offsets.get(log.rank, ()), origin) for log in whole)


def _on_clock(log: Log, offsets: tuple[Offset, ...], origin: int) -> Log:
    def at(time_ns: int) -> int:
        return time_ns + shift(offsets, time_ns) - origin

    def maybe(time_ns: int | None) -> int | None:
        return None if time_ns is None else at(time_ns)

    spans = sorted(log.spans, key=lambda span: span.issued_ns)
    return replace(
        log,
        spans=[
            replace(
                span,
                issued_ns=at(span.issued_ns),
                start_ns=maybe(span.start_ns),
                end_ns=maybe(span.end_ns),
            )
            for span in spans
        ],
        samples=[(max(0, at(time)), counter, value) for time, counter, value in log.samples],
        steps=[(step, at(start), at(end)) for step, start, end in log.steps],
        ended_ns=maybe(log.ended_ns),
    )


def _with_ring(log: Log) -> Log:
    """The log and what only its ring has kept, if the rank could not write down everything."""
    if log.status == "finished":
        return log
    written = {(span.group, span.seq) for span in log.spans}
    only = [noted for noted in log.noted if (noted.group, noted.seq) not in written]
    if log.header.get("steps") is not None:
        only = [noted for noted in only if not noted.ended_ns]
    return replace(log, spans=[*log.spans, *map(_span, only)])


def _span(noted: Noted) -> Span:
    kind = Kind(noted.kind) if noted.kind in set(Kind) else Kind.COLLECTIVE
    unit = noted.unit or None
    return Span(
        kind=kind.value,
        name=noted.name,
        stream=kind.value,
        issued_ns=noted.issued_ns,
        end_ns=noted.ended_ns or None,
        unit=unit,
        group=noted.group,
        elements=noted.elements or None,
        seq=noted.seq,
    )
