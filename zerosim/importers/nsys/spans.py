"""One rank's GPU work to rows: kinds from kernel names and the marks around their launches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from zerosim.importers.kineto.events import STEP, Slice, Thread
from zerosim.importers.kineto.facts import kind_of
from zerosim.importers.kineto.marks import name_of, unit_of
from zerosim.importers.kineto.nesting import Nesting, nest
from zerosim.importers.kineto.steps import step_at, step_windows
from zerosim.importers.nsys.payload import Calls, Sizes, sort_calls
from zerosim.importers.nsys.tables import COPIES, FILLS, STEPS
from zerosim.importers.recording import ROWS, Window
from zerosim.kinds import COMMUNICATION, Kind
from zerosim.trace import Flag

_PROFILER: Final = STEP.removesuffix("#").lower()
_COLLECTIVE: Final = re.compile(r"nccl(?!GroupEnd|CommInit|Send|Recv)", re.IGNORECASE)
_Call = tuple[Thread, int] | None
"""The thread and moment of a launch; None where it is unknown."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The ranges of one process, by what they tell of the work launched inside them."""

    steps: tuple[Window, ...]
    collectives: Nesting
    units: Nesting
    optimizer: Nesting
    calls: Calls


def sort_marks(marks: Sequence[Slice]) -> Marks:
    """The marks of one process by sort."""
    return Marks(
        steps=_steps(marks),
        collectives=nest(m for m in marks if _COLLECTIVE.match(m.name)),
        units=nest(m for m in marks if m.name.startswith("FSDP::")),
        optimizer=nest(m for m in marks if m.name.startswith("Optimizer.step")),
        calls=sort_calls(marks),
    )


def spans_of(work: pl.DataFrame, marks: Marks, *, with_launches: bool) -> pl.DataFrame:
    """Columns ROWS of `work` (in order of issue); `with_launches`: calls were recorded as well."""
    calls = [_call(*pair) for pair in work.select("thread", "issued_ns").iter_rows()]
    units = [_unit(marks, call) for call in calls]
    rows = zip(work["table"], work["name"], calls, strict=True)
    kinds = [_kind(marks, table, name, call) for table, name, call in rows]
    sizes = [_sizes(marks, kind, call) for kind, call in zip(kinds, calls, strict=True)]
    bytes_of = [s.nbytes if s else n for s, n in zip(sizes, work["nbytes"], strict=True)]
    named = zip(kinds, units, work["name"], strict=True)
    device = pl.format("device {} ", "device") if work["device"].n_unique() > 1 else pl.lit("")
    before = pl.col("issued_ns").is_null() & pl.lit(with_launches)
    made = work.with_columns(
        pl.format("{}stream {}", device, "stream").alias("stream"),
        pl.Series("name", [name_of(*row) for row in named], dtype=pl.String),
        pl.Series("kind", kinds, dtype=ROWS["kind"]),
        pl.Series("unit", units, dtype=pl.String),
        pl.Series("nbytes", bytes_of, dtype=pl.Int64),
        pl.Series("group", [s.group if s else None for s in sizes], dtype=pl.String),
        pl.Series("step", step_at(marks.steps, work["issued_ns"].to_list()), dtype=pl.Int32),
        pl.col("flags") + pl.when(before).then(int(Flag.BEFORE_WINDOW)).otherwise(0),
    )
    absent = [pl.lit(None).alias(name) for name in ROWS if name not in made.columns]
    return made.with_columns(absent).select(pl.col(n).cast(kind) for n, kind in ROWS.items())


def _call(thread: int | None, issued: int | None) -> _Call:
    return None if thread is None or issued is None else ((thread >> 24, thread), issued)


def _kind(marks: Marks, table: str, name: str, call: _Call) -> Kind:
    if table in (COPIES, FILLS):
        return Kind.MEMORY_OP
    if "nccl" in name.lower() or "rccl" in name.lower():
        told = kind_of(name)
        mark = marks.collectives.innermost(*call) if call else None
        return kind_of(mark.name) if mark and told is Kind.COLLECTIVE else told
    return Kind.OPTIMIZER if call and marks.optimizer.innermost(*call) else Kind.OTHER


def _sizes(marks: Marks, kind: Kind, call: _Call) -> Sizes | None:
    return marks.calls.sizes(*call, kind) if call and kind in COMMUNICATION else None


def _unit(marks: Marks, call: _Call) -> str | None:
    mark = marks.units.innermost(*call) if call else None
    return unit_of(mark.name) if mark else None


def _steps(marks: Iterable[Slice]) -> tuple[Window, ...]:
    """Windows of the profiler's steps, else of those numbered marks that cover most time."""
    numbered = [(match, mark) for mark in marks if (match := STEPS.match(mark.name))]
    covered: Counter[str] = Counter()
    for match, mark in numbered:
        covered[match["word"].lower()] += mark.end - mark.start
    first = next((word for word, _ in covered.most_common(1)), "")
    chosen = _PROFILER if _PROFILER in covered else first
    return step_windows(
        mark._replace(name=f"{STEP}{match['number']}")
        for match, mark in numbered
        if match["word"].lower() == chosen
    )
