"""CPU traces with Gloo to rows: what the workers moved, what the main thread computed meanwhile."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from zerosim.importers.kineto.events import Events, Slice
from zerosim.importers.kineto.facts import Facts, count_elements, dtype_of, kind_of
from zerosim.importers.kineto.marks import name_of, phases, unit_of
from zerosim.importers.kineto.nesting import Nesting, nest
from zerosim.importers.kineto.steps import step_at
from zerosim.importers.recording import Window, tabulate
from zerosim.kinds import Kind
from zerosim.trace import Flag, Group

_MARK: Final = "gloo:"
_COPIES: Final = ("FSDP::all_gather", "FSDP::post_backward_reduce")


@dataclass(frozen=True, slots=True)
class _Op:
    """One row to be."""

    stream: str
    kind: Kind
    name: str
    unit: str | None
    issued_ns: int | None
    start_ns: int
    end_ns: int
    flags: int
    facts: Facts | None = None


def is_gloo(events: Events) -> bool:
    """Whether Gloo moved something in this trace, so that its CPU is the device that computes."""
    return any(mark.name.startswith(_MARK) for mark in events.annotations)


def gloo_spans(
    events: Events, windows: tuple[Window, ...], groups: tuple[Group, ...]
) -> pl.DataFrame:
    """One row (columns ROWS) for each Gloo transfer and each outermost aten op of the main thread."""
    ops = _transfers(events, groups) + _computation(events)
    ops.sort(key=lambda op: op.start_ns if op.issued_ns is None else op.issued_ns)
    issued = [op.issued_ns for op in ops]
    return tabulate(
        {
            "stream": [op.stream for op in ops],
            "kind": [op.kind for op in ops],
            "name": [op.name for op in ops],
            "unit": [op.unit for op in ops],
            "issued_ns": issued,
            "start_ns": [op.start_ns for op in ops],
            "end_ns": [op.end_ns for op in ops],
            "step": step_at(windows, issued),
            "group": [op.facts.group if op.facts else None for op in ops],
            "elements": [op.facts.elements if op.facts else None for op in ops],
            "nbytes": [op.facts.nbytes if op.facts else None for op in ops],
            "dtype": [op.facts.dtype if op.facts else None for op in ops],
            "flags": [op.flags for op in ops],
        },
    )


# Note [Gloo runs a reduce-scatter as an all-reduce]: the worker's mark `gloo:all_reduce` tells what
# moved, not what was asked for. The call `c10d::_reduce_scatter_base_` on the main thread does. A
# mark gets its record number when it is called, so it belongs to the last call numbered before it.
def _transfers(events: Events, groups: tuple[Group, ...]) -> list[_Op]:
    marks = [mark for mark in events.annotations if mark.name.startswith(_MARK)]
    threads = sorted({mark.thread for mark in marks}, key=str)
    streams = {thread: f"gloo {i}" for i, thread in enumerate(threads)}
    fsdp = nest(m for m in events.annotations if m.name.startswith("FSDP::"))
    group = groups[0].name if len(groups) == 1 else None
    return [
        _transfer(mark, call, bool(events.c10d), streams[mark.thread], fsdp, group)
        for mark, call in _calls(marks, events.c10d)
    ]


def _calls(marks: list[Slice], calls: list[Slice]) -> list[tuple[Slice, Slice | None]]:
    numbered = [(n, call) for call in calls if (n := _number(call)) is not None]
    numbered.sort(key=lambda pair: pair[0])
    if len(numbered) < len(calls) or any(_number(mark) is None for mark in marks):
        return _calls_in_order(marks, calls)
    numbers = [n for n, _ in numbered]

    def call_of(mark: Slice) -> Slice | None:
        index = bisect_right(numbers, _number(mark) or 0) - 1
        return numbered[index][1] if index >= 0 else None

    return [(mark, call_of(mark)) for mark in marks]


def _calls_in_order(marks: list[Slice], calls: list[Slice]) -> list[tuple[Slice, Slice | None]]:
    ordered = sorted(calls, key=lambda call: call.start)
    if len(ordered) != len(marks):
        return [(mark, None) for mark in marks]
    return list(zip(sorted(marks, key=lambda m: m.start), ordered, strict=True))


def _number(piece: Slice) -> int | None:
    number = piece.args.get("Record function id")
    return number if type(number) is int and number > 0 else None


def _transfer(
    mark: Slice, call: Slice | None, known: bool, stream: str, fsdp: Nesting, group: str | None
) -> _Op:
    facts = _facts(mark, call, group)
    around = fsdp.innermost(call.thread, call.start) if call else None
    unit = unit_of(around.name) if around else None
    name = name_of(facts.kind, unit, mark.name)
    flags = mark.flags | (Flag.BEFORE_WINDOW if call is None and known else 0)
    issued = call.start if call else None
    return _Op(stream, facts.kind, name, unit, issued, mark.start, mark.end, flags, facts)


def _facts(mark: Slice, call: Slice | None, group: str | None) -> Facts:
    kind = kind_of(call.name if call else mark.name)
    dtype = _first_type(mark.args) or (_first_type(call.args) if call else None)
    # Without the call only Gloo's own view is left, in which a reduce-scatter is an all-reduce.
    elements = _called_elements(call, kind) if call else None
    if elements is None and kind not in (Kind.ALL_GATHER, Kind.GATHER, Kind.BARRIER):
        elements = count_elements(mark.args.get("Input Dims"))  # of a list the call says nothing
    return Facts(kind, group, elements=elements, dtype=dtype)


def _called_elements(call: Slice, kind: Kind) -> int | None:
    dims = call.args.get("Input Dims")
    if kind is Kind.REDUCE_SCATTER and isinstance(dims, list):
        dims = dims[1:]
    return None if kind is Kind.BARRIER else count_elements(dims)


def _first_type(args: dict[str, Any]) -> str | None:
    types = args.get("Input type")
    known = [dtype_of(t) for t in types if t != "TensorList"] if isinstance(types, list) else []
    return known[0] if known else None


def _computation(events: Events) -> list[_Op]:
    ops = outermost([a for a in events.aten if a.on_main_thread])
    marks = [m for m in events.annotations if m.name.startswith("FSDP::")]
    optimizer = nest(m for m in events.annotations if m.name.startswith("Optimizer.step"))
    backward = nest(events.backward)
    inner = nest(marks)
    forward = nest(
        [
            *phases(marks, "FSDP::pre_forward", "FSDP::post_forward"),
            *(m for m in events.annotations if m.name == "DistributedDataParallel.forward"),
        ]
    )
    behind = nest(phases(marks, "FSDP::pre_backward", "FSDP::post_backward_reduce"))

    def row(op: Slice) -> _Op:
        at = (op.thread, op.start)
        kind, unit = Kind.OTHER, None
        if mark := inner.innermost(*at):
            # FSDP's own work, not the layer's: copies around its collectives, and bookkeeping.
            kind = Kind.COPY if mark.name.startswith(_COPIES) else Kind.OTHER
            unit = unit_of(mark.name)
        elif optimizer.innermost(*at):
            kind = Kind.OPTIMIZER
        elif backward.innermost(*at):
            kind, unit = Kind.BACKWARD, _phase_unit(behind, op)
        elif forward.innermost(*at):
            kind, unit = Kind.FORWARD, _phase_unit(forward, op)
        return _Op("compute", kind, op.name, unit, op.start, op.start, op.end, op.flags)

    return [row(op) for op in ops]


def _phase_unit(nesting: Nesting, op: Slice) -> str | None:
    around = nesting.innermost(op.thread, op.start)
    return around.name if around and not around.name.startswith("Distributed") else None


def outermost(pieces: Sequence[Slice]) -> list[Slice]:
    """Those of `pieces` (of one thread) that lie in no other one, in time order."""
    kept: list[Slice] = []
    covered = -1
    for piece in sorted(pieces, key=lambda p: (p.start, -p.end)):
        if piece.end > covered or piece.start >= covered:
            kept.append(piece)
            covered = max(covered, piece.end)
    return kept
