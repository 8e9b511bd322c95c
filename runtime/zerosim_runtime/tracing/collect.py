"""One trace from what the ranks of a traced program wrote, also if some of it is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson
import polars as pl

from zerosim.collectives import COSTED, wire_bytes
from zerosim.errors import RuntimeFailedError
from zerosim.kinds import COMMUNICATION, Kind
from zerosim.quality import Quality
from zerosim.trace import Flag, Group, Meta, StepWindow, Trace, make_trace
from zerosim_runtime.places import Where, content_of, places
from zerosim_runtime.tracing.align import align
from zerosim_runtime.tracing.log import Log, read_logs
from zerosim_runtime.tracing.spans import Span
from zerosim_runtime.tracing.tie import Ties, tie

PROGRAM_FILE: Final = "program.json"
"""What was started, written by the launcher: `name` and `argv`."""
_UNSIZED: Final = (Kind.BARRIER, Kind.COLLECTIVE)
_SHOWN: Final = 5


def collect(where: Where, *, failure: str | None = None) -> Trace:
    """The trace of what ranks left in one or several directories; unfinished if there was a `failure`.

    Raises RuntimeFailedError if no rank left anything, RunError for files that no rank wrote.
    """
    raw = read_logs(where)
    if not raw or not any(log.spans or log.noted for log in raw):
        raise RuntimeFailedError("no rank recorded anything: see what the program said")
    clock, logs = align(raw)
    ties = tie(logs)
    header, program = raw[0].header, read_program(where)
    spans = [
        _row(log, index, span, ties, str(header["backend"]))
        for log in logs
        for index, span in enumerate(log.spans)
    ]
    frame = pl.DataFrame(spans, infer_schema_length=None)
    engine = next((log.facts["engine"] for log in raw if "engine" in log.facts), "own")
    meta = Meta(
        name=str(program.get("name") or "program"),
        source="measured",
        world_size=int(header["world_size"]),
        engine=f"{engine} on {header['backend']}",
        device=str(header["device"]),
        clock=clock,
        quality=_quality(logs, ties, frame, failure),
        groups=_groups(logs),
        steps=_windows(logs),
        finished=failure is None,
    )
    return make_trace(frame, meta, _samples(logs), _provenance(raw, program, str(engine)))


def read_program(where: Where) -> dict[str, Any]:
    """What the launcher wrote of the program; nothing if it was started by other means."""
    for place in places(where):
        with suppress(orjson.JSONDecodeError):
            found = orjson.loads(content_of(place / PROGRAM_FILE) or b"{}")
            if isinstance(found, dict) and found:
                return found
    return {}


def _row(log: Log, index: int, span: Span, ties: Ties, backend: str) -> dict[str, Any]:
    start = span.issued_ns if span.start_ns is None else span.start_ns
    end = start if span.end_ns is None else max(start, span.end_ns)
    flags = Flag(0)
    if span.end_ns is None:
        flags = Flag.UNTIMED if log.status == "finished" else Flag.UNFINISHED
    if flags is Flag.UNFINISHED:
        end = max(start, _last_ns(log))
    return {
        "rank": log.rank,
        **{name: getattr(span, name) for name in _COPIED},
        "start_ns": start,
        "end_ns": end,
        "collective": ties.numbers.get((log.rank, index)),
        "wire_bytes": _moved(span, log, backend) if span.wire_bytes is None else span.wire_bytes,
        "flags": int(flags),
    }


_COPIED: Final = (
    *("kind", "name", "stream", "unit", "issued_ns", "step", "micro_batch", "group"),
    *("elements", "nbytes", "dtype", "bucket"),
)


def _last_ns(log: Log) -> int:
    """The last moment that is known of a rank."""
    return max(log.ended_ns or 0, *(span.end_ns or span.issued_ns for span in log.spans))


def _moved(span: Span, log: Log, backend: str) -> int | None:
    kind = Kind(span.kind)
    n_ranks = len(log.groups.get(span.group or "", ()))
    if kind not in COSTED or span.nbytes is None or not n_ranks:
        return None
    return None if span.end_ns is None else wire_bytes(kind, span.nbytes, n_ranks, backend)


def _groups(logs: Sequence[Log]) -> tuple[Group, ...]:
    found = {name: ranks for log in logs for name, ranks in log.groups.items()}
    return tuple(Group(name, len(ranks), ranks) for name, ranks in sorted(found.items()))


def _windows(logs: Sequence[Log]) -> tuple[StepWindow, ...]:
    """As the rank says, else from the first issue of a step to its last end."""
    windows: list[StepWindow] = []
    for log in logs:
        told = {step: (start, end) for step, start, end in log.steps}
        for span in () if told else log.spans:
            if span.step is not None:
                first, last = told.get(span.step, (span.issued_ns, span.issued_ns))
                ended = max(last, span.end_ns or last)
                told[span.step] = (min(first, span.issued_ns), ended)
        open_steps = {s.step for s in log.spans if s.end_ns is None and log.status != "finished"}
        windows += [
            StepWindow(log.rank, step, *window)
            for step, window in sorted(told.items())
            if step not in open_steps
        ]
    return tuple(windows)


def _samples(logs: Sequence[Log]) -> pl.DataFrame:
    rows = [
        {"time_ns": time, "rank": log.rank, "counter": counter, "value": value}
        for log in logs
        for time, counter, value in log.samples
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _quality(logs: Sequence[Log], ties: Ties, frame: pl.DataFrame, failure: str | None) -> Quality:
    moving = frame.filter(
        pl.col("kind").is_in([k.value for k in COMMUNICATION if k not in _UNSIZED])
    )
    untimed = int((frame["flags"] & int(Flag.UNTIMED)).sum()) if frame.height else 0
    warnings = [] if failure is None else [failure]
    warnings += [problem for problem in ties.problems[:_SHOWN] if problem != failure]
    if len(ties.problems) > _SHOWN:
        warnings.append(f"ranks disagree on {len(ties.problems)} collectives in all")
    if ties.n_early:
        warnings.append(
            f"{ties.n_early} collectives ended on a rank before another had issued them"
        )
    if untimed:
        warnings.append(f"{untimed} ops have no times of their own")
    return Quality(
        events=frame.height,
        lost=len(_missing(logs)),
        unsized=moving["elements"].null_count(),
        warnings=(*warnings, *_gaps(logs)),
    )


def _missing(logs: Sequence[Log]) -> list[int]:
    return sorted(set(range(int(logs[0].header["world_size"]))) - {log.rank for log in logs})


def _gaps(logs: Sequence[Log]) -> list[str]:
    """What is not there, and why."""
    absent = ", ".join(map(str, _missing(logs)[:_SHOWN]))
    gaps = [f"nothing is known of rank {absent}"] if absent else []
    silent = [str(log.rank) for log in logs if log.status is None]
    if silent:
        gaps.append(
            f"rank {', '.join(silent[:_SHOWN])} left no last word: "
            "what it did after its last step is known from its ring alone"
        )
    gaps += [f"the record of rank {log.rank} breaks off" for log in logs if log.cut]
    return gaps


def _provenance(logs: Sequence[Log], program: Mapping[str, Any], engine: str) -> dict[str, Any]:
    header = logs[0].header
    return {
        "program": list(program.get("argv", ())),
        "engine": engine,
        "started_unix_ns": min(int(log.header["unix_ns"]) for log in logs),
        "torch": header["torch"],
        "python": header["python"],
        "hosts": sorted({str(log.header["host"]) for log in logs}),
        "threads": header["threads"],
        "facts": {str(log.rank): dict(log.facts) for log in logs},
        "kinds": dict(Counter(span.kind for span in logs[0].spans)),
    }
