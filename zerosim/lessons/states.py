"""The states of a lesson: one before the step, one an op, one after it; all from a plan and its run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from zerosim.errors import InputError
from zerosim.kinds import Kind
from zerosim.lessons import sentences
from zerosim.lessons.cells import COPIES, Cells, Held, follow
from zerosim.numerics import Numerics
from zerosim.plan import Op, Plan
from zerosim.trace import Trace
from zerosim.workload import Workload

Phase = Literal["before", "forward", "backward", "update", "after"]
_PHASE: Final[dict[Kind, Phase]] = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.OPTIMIZER: "update",
}
_WORKS_ON: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.ALL_GATHER: ("parameters",),
    Kind.FORWARD: ("parameters", "activations"),
    Kind.BACKWARD: ("parameters", "activations", "gradients"),
    Kind.REDUCE_SCATTER: ("gradients",),
    Kind.ALL_REDUCE: ("gradients",),
    Kind.OPTIMIZER: ("parameters", "gradients", "optimizer"),
}


@dataclass(frozen=True, slots=True)
class State:
    """What the page shows at one step.

    `cells` are equal on all ranks but for which part is their own. `nbytes`: bytes by memory kind
    of one rank. `start_ns`, `end_ns`: when the op runs on rank 0, since the step's start.
    `meanwhile`: ops that run at the same time on other streams. `hot`: the (column, unit) that the
    op works on. `aside`: what becomes of a gathered layer after the op, in a word.
    """

    index: int
    name: str
    kind: Kind | None
    phase: Phase
    unit: str | None
    sentence: str
    cells: Cells
    nbytes: tuple[tuple[str, int], ...]
    start_ns: int
    end_ns: int
    stream: str | None
    meanwhile: tuple[str, ...]
    hot: tuple[tuple[str, str], ...] = ()
    aside: str = ""

    @property
    def total_bytes(self) -> int:
        """All bytes of one rank."""
        return sum(nbytes for _, nbytes in self.nbytes)


@dataclass(frozen=True, slots=True)
class _Timed:
    op: Op
    start_ns: int
    end_ns: int


def states(plan: Plan, workload: Workload, numerics: Numerics, trace: Trace) -> tuple[State, ...]:
    """The states of the last step of `plan`, timed by `trace`, which ran it.

    Raises InputError if the trace did not run that plan.
    """
    step = max(op.step for op in plan.ops)
    timed = _timed(plan, trace, step)
    ops = [t.op for t in timed]
    phases = dict(zip((op.id for op in ops), _phases(ops), strict=True))
    held = tuple(follow(plan, workload, numerics, step))
    told = sentences.story(plan, held[0], step)
    end = max(t.end_ns for t in timed)
    middle = [
        State(
            index=i,
            name=t.op.name,
            kind=t.op.kind,
            phase=phases[t.op.id],
            unit=t.op.unit,
            sentence=sentences.during(told, h, t.op),
            cells=h.cells,
            nbytes=tuple(h.nbytes.items()),
            start_ns=t.start_ns,
            end_ns=t.end_ns,
            stream=t.op.stream,
            meanwhile=_meanwhile(t, timed),
            hot=tuple(_hot(h, t.op)),
            aside=sentences.aside(told, t.op),
        )
        for i, (h, t) in enumerate(zip(held[1:-1], timed, strict=True), start=1)
    ]
    first = _edge(0, held[0], "before", sentences.before(told), 0)
    last = _edge(len(middle) + 1, held[-1], "after", sentences.after(told, held[-1]), end)
    return (first, *middle, last)


def _timed(plan: Plan, trace: Trace, step: int) -> list[_Timed]:
    rank = trace.ranks[0]
    rows = trace.spans.filter((pl.col("rank") == rank) & (pl.col("step") == step))
    ops = [op for op in plan.ops if op.step == step]
    if rows["name"].to_list() != [op.name for op in ops]:
        raise InputError(
            f"run '{trace.meta.name}' is not a run of plan '{plan.name}': run it again"
        )
    begin = rows.select(pl.min_horizontal("issued_ns", "start_ns").min()).item()
    times = zip(rows["start_ns"], rows["end_ns"], ops, strict=True)
    return [_Timed(op, s - begin, e - begin) for s, e, op in times if op.kind not in COPIES]


def _phases(ops: Sequence[Op]) -> Iterator[Phase]:
    """A gather belongs to what computes next, a reduction to what computed last."""
    for i, op in enumerate(ops):
        later = [_PHASE[o.kind] for o in ops[i:] if o.kind in _PHASE]
        earlier = [_PHASE[o.kind] for o in ops[: i + 1] if o.kind in _PHASE]
        belongs = later[:1] if op.kind is Kind.ALL_GATHER or not earlier else earlier[-1:]
        yield (belongs or earlier[-1:])[0]


def _meanwhile(this: _Timed, timed: Iterable[_Timed]) -> tuple[str, ...]:
    return tuple(
        other.op.name
        for other in timed
        if other.op.stream != this.op.stream
        and max(other.start_ns, this.start_ns) < min(other.end_ns, this.end_ns)
    )


def _hot(held: Held, op: Op) -> Iterator[tuple[str, str]]:
    columns = _WORKS_ON.get(op.kind, ())
    for column, unit in held.cells:
        if column not in columns:
            continue
        moving = held.cells[column, unit] == "moving"
        if op.kind is Kind.OPTIMIZER or unit == op.unit or moving:
            yield column, unit


def _edge(index: int, held: Held, phase: Phase, sentence: str, at_ns: int) -> State:
    return State(
        index=index,
        name=phase,
        kind=None,
        phase=phase,
        unit=None,
        sentence=sentence,
        cells=held.cells,
        nbytes=tuple(held.nbytes.items()),
        start_ns=at_ns,
        end_ns=at_ns,
        stream=None,
        meanwhile=(),
    )
