"""Logs of several ranks on one clock, and how good that clock is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from zerosim.kinds import Kind
from zerosim.trace import Clock
from zerosim_runtime.alignment import Alignment, alignment_of
from zerosim_runtime.ring import Noted
from zerosim_runtime.tracing.log import Log
from zerosim_runtime.tracing.spans import Span


def align(logs: Sequence[Log]) -> tuple[Clock, tuple[Log, ...]]:
    """Logs on a clock that starts with the first op; what only a ring has kept is among their spans."""
    whole = [_with_ring(log) for log in logs]
    alignment = alignment_of(
        {log.rank: str(log.header["clock"]) for log in logs},
        {log.rank: min(span.issued_ns for span in log.spans) for log in whole if log.spans},
        [offset for log in logs for offset in log.offsets],
    )
    return alignment.clock, tuple(_on_clock(log, alignment) for log in whole)


def _on_clock(log: Log, alignment: Alignment) -> Log:
    at, known = partial(alignment.at, log.rank), partial(alignment.known, log.rank)
    spans = sorted(log.spans, key=lambda span: span.issued_ns)
    return replace(
        log,
        spans=[
            replace(
                span,
                issued_ns=at(span.issued_ns),
                start_ns=known(span.start_ns),
                end_ns=known(span.end_ns),
            )
            for span in spans
        ],
        samples=[(max(0, at(time)), counter, value) for time, counter, value in log.samples],
        steps=[(step, at(start), at(end)) for step, start, end in log.steps],
        ended_ns=known(log.ended_ns),
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
