"""GPU work to rows: kernels, copies and collectives, tied to the host calls that launched them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from zerosim.importers.kineto.events import Events, Slice
from zerosim.importers.kineto.facts import Facts, from_metadata, from_shapes, kind_of
from zerosim.importers.kineto.marks import name_of, unit_of
from zerosim.importers.kineto.nesting import Nesting, nest
from zerosim.importers.kineto.steps import step_at
from zerosim.importers.recording import Window, tabulate
from zerosim.kinds import Kind
from zerosim.trace import Flag, Group

_UNFINISHED: Final = int(Flag.UNFINISHED)
_UNTIMED: Final = int(Flag.UNTIMED)
_LIBRARIES: Final = ("nccl", "rccl")
"""Words in the names of kernels that communicate."""


@dataclass(frozen=True, slots=True)
class _Host:
    """The host side of a file: launches by correlation, and the marks around them."""

    launches: dict[Any, Slice]
    comms: Nesting
    comms_by_id: dict[Any, dict[str, Any]]
    marks: Nesting
    fsdp: Nesting
    optimizer: Nesting
    only_group: Group | None


def gpu_spans(
    events: Events, windows: tuple[Window, ...], groups: tuple[Group, ...]
) -> pl.DataFrame:
    """One row (columns ROWS) for each event of GPU work, in the order the host issued them.

    Work that the host launched before the recording comes first, with unknown issue time.
    """
    host = _host(events, groups)
    work = [(piece, host.launches.get(_key(piece.args.get("correlation")))) for piece in events.gpu]
    work += _unfinished(events, host)
    # Python's sort is stable: kernels of one launch (CUDA graphs) stay in their own order.
    work.sort(
        key=lambda pair: (pair[1] is not None, pair[1].start if pair[1] else 0, pair[0].start)
    )
    return _rows(work, host, windows, prefix=_prefixes(events))


def _host(events: Events, groups: tuple[Group, ...]) -> _Host:
    launches: dict[Any, Slice] = {}
    for launch in events.launches:
        correlation = _key(launch.args.get("correlation"))
        if correlation is not None:
            launches.setdefault(correlation, launch)
    named = [c for c in events.comms if from_metadata(c.args)]
    return _Host(
        launches=launches,
        comms=nest(named),
        comms_by_id={_key(c.args.get("External id")): c.args for c in named},
        marks=nest(m for m in events.annotations if m.name.startswith("nccl:")),
        fsdp=nest(m for m in events.annotations if m.name.startswith("FSDP::")),
        optimizer=nest(m for m in events.annotations if m.name.startswith("Optimizer.step")),
        only_group=groups[0] if len(groups) == 1 else None,
    )


def _key(identity: object) -> int | str | None:
    return identity if isinstance(identity, int | str) else None


def _unfinished(events: Events, host: _Host) -> list[tuple[Slice, Slice | None]]:
    # Launches after the last one that ran: the recording ended before their kernels did. Where one
    # launch starts many kernels (CUDA graphs), a launch without its own says nothing.
    served = Counter(_key(piece.args.get("correlation")) for piece in events.gpu)
    ran = set(served)
    last = max((host.launches[c].start for c in ran if c in host.launches), default=None)
    if last is None or max(served.values()) > 1:
        return []
    pending = [
        launch
        for correlation, launch in host.launches.items()
        if launch.start > last and correlation not in ran and "launchkernel" in launch.name.lower()
    ]
    flags = int(Flag.UNFINISHED | Flag.UNTIMED)
    return [
        (launch._replace(end=launch.start, category="kernel", flags=flags), launch)
        for launch in pending
    ]


def _prefixes(events: Events) -> dict[Any, str]:
    devices = Counter(_key(piece.args.get("device")) for piece in events.gpu)
    return {d: f"device {d} " for d in devices} if len(devices) > 1 else {}


def _rows(
    work: list[tuple[Slice, Slice | None]],
    host: _Host,
    windows: tuple[Window, ...],
    prefix: dict[Any, str],
) -> pl.DataFrame:
    facts = [_facts(piece, launch, host) for piece, launch in work]
    kinds = [f.kind if f else _kind(p, la, host) for (p, la), f in zip(work, facts, strict=True)]
    units = [_unit(launch, host) for _, launch in work]
    times = [_times(piece, launch) for piece, launch in work]
    issued = [launch.start if launch else None for _, launch in work]
    return tabulate(
        {
            "stream": [_stream(piece, prefix) for piece, _ in work],
            "kind": kinds,
            "name": [
                name_of(kind, unit, piece.name)
                for (piece, _), kind, unit in zip(work, kinds, units, strict=True)
            ],
            "unit": units,
            "issued_ns": issued,
            "start_ns": [start for start, _, _ in times],
            "end_ns": [end for _, end, _ in times],
            "step": step_at(windows, issued),
            "group": [f.group if f else None for f in facts],
            "elements": [f.elements if f else None for f in facts],
            "nbytes": [f.nbytes if f else None for f in facts],
            "dtype": [f.dtype if f else None for f in facts],
            "flags": [
                flags | (Flag.BEFORE_WINDOW if launch is None and host.launches else 0)
                for (_, _, flags), (_, launch) in zip(times, work, strict=True)
            ],
            "sequence": [f.sequence if f else None for f in facts],
        },
    )


def _communicates(piece: Slice) -> bool:
    return piece.category == "kernel" and any(word in piece.name.lower() for word in _LIBRARIES)


def _kind(piece: Slice, launch: Slice | None, host: _Host) -> Kind:
    if piece.category != "kernel":
        return Kind.MEMORY_OP
    if launch and host.optimizer.innermost(launch.thread, launch.start):
        return Kind.OPTIMIZER
    return Kind.OTHER


def _facts(piece: Slice, launch: Slice | None, host: _Host) -> Facts | None:
    own = piece.flags & _UNFINISHED and from_metadata(_called(piece, launch, host) or {})
    if own:
        return own
    if not _communicates(piece):
        return None
    told = from_metadata(piece.args)
    if told is not None and told.kind is not Kind.COLLECTIVE:
        return told
    by_name = kind_of(piece.name)
    called = from_metadata(_called(piece, launch, host) or {})
    for facts in (called, _marked(launch, host)):
        if facts is not None and by_name in (facts.kind, Kind.COLLECTIVE):
            return facts
    return told or Facts(by_name)


def _called(piece: Slice, launch: Slice | None, host: _Host) -> dict[str, Any] | None:
    call = host.comms.innermost(launch.thread, launch.start) if launch else None
    return call.args if call else host.comms_by_id.get(_key(piece.args.get("External id")))


def _marked(launch: Slice | None, host: _Host) -> Facts | None:
    mark = host.marks.innermost(launch.thread, launch.start) if launch else None
    if mark is None or (kind := kind_of(mark.name)) is Kind.COLLECTIVE:
        return None
    return from_shapes(kind, mark.args, host.only_group.size if host.only_group else None)


def _unit(launch: Slice | None, host: _Host) -> str | None:
    mark = host.fsdp.innermost(launch.thread, launch.start) if launch else None
    return unit_of(mark.name) if mark else None


def _times(piece: Slice, launch: Slice | None) -> tuple[int, int, int]:
    if not piece.flags & _UNTIMED:
        return piece.start, piece.end, piece.flags
    # A kernel at time 0 was never timed; it can be placed where it was launched.
    moment = launch.start if launch else piece.start
    return moment, moment, piece.flags


def _stream(piece: Slice, prefix: dict[Any, str]) -> str:
    stream = piece.args.get("stream", piece.thread[1])
    return f"{prefix.get(_key(piece.args.get('device')), '')}stream {stream}"
