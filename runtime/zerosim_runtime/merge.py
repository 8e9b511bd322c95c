"""One trace from what every rank wrote: one clock, collectives tied together, memory as it was held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from zerosim.collectives import wire_bytes
from zerosim.errors import RunError, RuntimeFailedError
from zerosim.kinds import COMMUNICATION, MUTUAL
from zerosim.plan import Op, Plan
from zerosim.quality import Quality
from zerosim.scenario import Scenario, cluster_of, facts_of
from zerosim.store import load_run
from zerosim.trace import (
    Clock,
    Flag,
    Group,
    Meta,
    StepWindow,
    Trace,
    make_trace,
)
from zerosim_runtime.alignment import Alignment, alignment_of
from zerosim_runtime.assignment import RUN, assigned_plan, read_assignment
from zerosim_runtime.ledger import samples, states
from zerosim_runtime.links import on_gloo
from zerosim_runtime.places import Where, places
from zerosim_runtime.records import (
    Done,
    Record,
    check_header,
    of_one_attempt,
    read_record,
)


def merge(where: Where, *, failure: str | None = None) -> Trace:
    """The trace of what ranks left, in one directory or one a node; unfinished after a `failure`.

    Raises RunError if there is no assignment, or a file that no rank wrote; RuntimeFailedError if no op
    was recorded or ranks disagree.
    """
    assignment, scenario = read_assignment(where)
    found = (read_record(where, rank) for rank in range(scenario.cluster.world_size))
    raw = tuple(r for r in of_one_attempt(found) if r is not None and r.rows)
    if not raw:
        raise RuntimeFailedError("the ranks recorded no op: see what torchrun said")
    for record in raw:
        check_header(record)
    clock, records = align(raw)
    plan = assigned_plan(where, assignment, scenario)
    _check_ops(plan, records)
    measured = as_measured(scenario, str(raw[0].header["backend"]), assignment.machine)
    spans = _spans(plan, records, cluster_of(measured).backend)
    source = load_run(places(where)[0] / RUN).meta if assignment.replays else None
    known = source is None or source.scenario is not None
    meta = Meta(
        name=scenario.name,
        source="measured",
        world_size=plan.world_size,
        scenario=measured.to_dict() if known else None,
        engine=str(raw[0].header["backend"]),
        device=str(raw[0].header["device"]),
        clock=clock,
        quality=_quality(plan, records, failure),
        groups=tuple(Group(a.name, a.size, tuple(range(plan.world_size))) for a in plan.axes),
        steps=_windows(plan, records),
        states=tuple(states(plan, record) for record in records),
        model=facts_of(measured) if source is None else source.model,
        finished=failure is None,
    )
    origin_ns = raw[0].rows[0].issued_ns - records[0].rows[0].issued_ns
    provenance = _provenance(raw) | {"origin_perf_ns": origin_ns}
    return make_trace(spans, meta, samples(plan, records), provenance)


def as_measured(
    scenario: Scenario, backend: str, machine: dict[str, Any] | None = None
) -> Scenario:
    """The scenario with the machine that it really ran on: the one that is given, for gloo this CPU."""
    if machine is not None:
        return Scenario.from_dict(scenario.to_dict() | {"cluster": machine})
    return on_gloo(scenario) if backend == "gloo" else scenario


def align(records: Sequence[Record]) -> tuple[Clock, tuple[Record, ...]]:
    """Records on one clock that starts with the first op, and how good that clock is."""
    alignment = alignment_of(
        {record.rank: str(record.header["clock"]) for record in records},
        {record.rank: record.rows[0].issued_ns for record in records},
        [offset for record in records for offset in record.offsets],
    )
    return alignment.clock, tuple(_on_clock(record, alignment) for record in records)


def _on_clock(record: Record, alignment: Alignment) -> Record:
    at, known = partial(alignment.at, record.rank), partial(alignment.known, record.rank)
    return replace(
        record,
        rows=tuple(
            Done(d.op, at(d.issued_ns), known(d.start_ns), known(d.end_ns)) for d in record.rows
        ),
        changes=tuple(replace(c, time_ns=max(0, at(c.time_ns))) for c in record.changes),
        ended_ns=known(record.ended_ns),
    )


def tie(plan: Plan, records: Sequence[Record]) -> dict[tuple[int, int], int]:
    """The collective of each (rank, op): the n-th of a communicator is one for all of its ranks.

    Raises RuntimeFailedError if two ranks took different ops for it.
    """
    first: dict[tuple[str | None, int], tuple[int, int, Op]] = {}
    tied: dict[tuple[int, int], int] = {}
    for record in records:
        counts: dict[str | None, int] = {}
        for done in record.rows:
            op = plan.ops[done.op]
            if op.kind not in COMMUNICATION:
                continue
            place = (op.communicator, counts.get(op.communicator, 0))
            counts[op.communicator] = place[1] + 1
            number, rank, other = first.setdefault(place, (len(first), record.rank, op))
            if other.id != op.id:
                raise RuntimeFailedError(
                    f"rank {rank} and rank {record.rank} disagree: '{other.name}' of step "
                    f"{other.step} met '{op.name}' of step {op.step}"
                )
            tied[record.rank, op.id] = number
    return tied


def _check_ops(plan: Plan, records: Sequence[Record]) -> None:
    for record in records:
        for done in record.rows:
            if not 0 <= done.op < len(plan.ops):
                raise RunError(
                    f"rank {record.rank} has an op {done.op}, the plan has {len(plan.ops)}: "
                    "its file is of another run"
                )


def _spans(plan: Plan, records: Sequence[Record], backend: str) -> pl.DataFrame:
    tied = tie(plan, records)
    sizes = {axis.name: axis.size for axis in plan.axes}
    rows = [
        _span(record, done, plan.ops[done.op], tied, sizes, backend)
        for record in records
        for done in record.rows
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _span(
    record: Record,
    done: Done,
    op: Op,
    tied: Mapping[tuple[int, int], int],
    sizes: Mapping[str, int],
    backend: str,
) -> dict[str, Any]:
    start = done.issued_ns if done.start_ns is None else done.start_ns
    end = done.end_ns
    moved = None
    if op.group is not None and op.nbytes is not None:
        moved = wire_bytes(op.kind, op.nbytes, sizes[op.group], backend)
    return {
        "rank": record.rank,
        "stream": op.stream,
        "kind": op.kind.value,
        "name": op.name,
        "unit": op.unit,
        "issued_ns": done.issued_ns,
        "start_ns": start,
        "end_ns": max(start, record.last_ns) if end is None else end,
        "step": op.step,
        "micro_batch": op.micro_batch,
        "collective": tied.get((record.rank, op.id)),
        "group": op.group,
        "elements": op.elements,
        "nbytes": op.nbytes,
        "wire_bytes": moved if end is not None else None,
        "dtype": op.dtype,
        "bucket": op.bucket,
        "flags": int(Flag.UNFINISHED) if end is None else 0,
    }


def _windows(plan: Plan, records: Sequence[Record]) -> tuple[StepWindow, ...]:
    """From the first issue of a step to its last end; a step that was cut short has no window."""
    size = {op.step: 0 for op in plan.ops}
    for op in plan.ops:
        size[op.step] += 1
    windows: list[StepWindow] = []
    for record in records:
        of_step: dict[int, list[Done]] = {}
        for done in record.rows:
            of_step.setdefault(plan.ops[done.op].step, []).append(done)
        for step, rows in sorted(of_step.items()):
            ends = [done.end_ns for done in rows if done.end_ns is not None]
            if len(ends) == size[step]:
                first = min(done.issued_ns for done in rows)
                windows.append(StepWindow(record.rank, step, first, max(ends)))
    return tuple(windows)


def _quality(plan: Plan, records: Sequence[Record], failure: str | None) -> Quality:
    """Effects before their causes show a bad clock: nobody's end may come before everybody's issue."""
    issued: dict[int, int] = {}
    ended: dict[int, int] = {}
    for record in records:
        for done in record.rows:
            if plan.ops[done.op].kind in MUTUAL and done.end_ns is not None:
                issued[done.op] = max(issued.get(done.op, done.issued_ns), done.issued_ns)
                ended[done.op] = min(ended.get(done.op, done.end_ns), done.end_ns)
    early = sum(ended[op] < issued[op] for op in issued)
    warnings = [] if failure is None else [failure]
    if early:
        warnings.append(f"{early} collectives ended on a rank before another had issued them")
    return Quality(events=sum(len(r.rows) for r in records), warnings=tuple(warnings))


def _provenance(records: Sequence[Record]) -> dict[str, Any]:
    return {
        "started_unix_ns": min(int(record.header["unix_ns"]) for record in records),
        "torch": records[0].header["torch"],
        "python": records[0].header["python"],
        "hosts": sorted({str(record.header["host"]) for record in records}),
        "threads": records[0].header["threads"],
        "gpus": records[0].header.get("gpus", 0),
        "losses": {str(record.rank): [loss for _, loss in record.losses] for record in records},
    }
