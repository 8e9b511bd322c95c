"""Operations of NCCL communicators, as its own logs tell of them, to recordings of ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from zerosim.importers.content import Content
from zerosim.importers.json_lines import Faults
from zerosim.importers.recording import Recording, refuse_many, remarks, tabulate
from zerosim.kinds import Kind
from zerosim.quality import Quality
from zerosim.trace import Flag, Group

Clock = Literal["epoch", "process", "none"]
"""What the times of a log count from: `process`, a start of each process's own; `none`, no clock."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `rank` and `size` are those of its communicator, `group` is that one's name.

    Times in ns; `elements` and `nbytes` count the full tensor. Null: unknown.
    """

    process: tuple[str, str]
    group: str
    size: int | None
    rank: int | None
    kind: Kind
    name: str
    sequence: int | None = None
    elements: int | None = None
    nbytes: int | None = None
    dtype: str | None = None
    issued_ns: int | None = None
    start_ns: int = 0
    end_ns: int = 0
    flags: int = 0


def by_rank(operations: Sequence[Operation]) -> list[list[Operation]]:
    """The operations of each rank: a process is one, unless it is several of one communicator."""
    seen: dict[tuple[tuple[str, str], str], set[int | None]] = defaultdict(set)
    for op in operations:
        seen[op.process, op.group].add(op.rank)
    shared = {process for (process, _), ranks in seen.items() if len(ranks) > 1}
    ranks: dict[Any, list[Operation]] = defaultdict(list)
    for op in operations:
        ranks[(op.process, op.rank) if op.process in shared else op.process].append(op)
    return list(ranks.values())


def recordings(
    content: Content,
    ranks: Sequence[Sequence[Operation]],
    faults: Faults,
    *,
    clock: Clock,
    unknown: Sequence[str],
) -> tuple[Recording, ...]:
    """A recording of each of `ranks` (one at least); the first also tells of `faults` in the file.

    `clock`: what their times count from. Raises TraceFileError for more ranks than any file tells of.
    """
    refuse_many(content.path, len(ranks))
    found = [_recording(content, ops, clock, alone=len(ranks) == 1) for ops in ranks]
    told, own = faults.quality(content, unknown), found[0].quality
    quality = replace(told, unsized=own.unsized, warnings=(*told.warnings, *own.warnings))
    return (replace(found[0], quality=quality), *found[1:])


def _recording(
    content: Content,
    ops: Sequence[Operation],
    clock: Clock,
    *,
    alone: bool,
) -> Recording:
    name = content.path.name
    sizes = {op.group: op.size for op in ops if op.size}
    rank = _rank(ops)
    source = name if alone else f"{name} (process {ops[0].process[1]}, rank {rank})"
    unsized = sum(op.nbytes is None and op.kind is not Kind.BARRIER for op in ops)
    untimed = sum(bool(op.flags & Flag.UNTIMED) for op in ops)
    notes = (
        (unsized, "has {} collectives of unknown size"),
        (untimed, "has {} ops without a time"),
    )
    return Recording(
        source=source,
        rank=rank,
        spans=_spans(ops),
        groups=tuple(Group(group, size) for group, size in sizes.items()),
        absolute=clock == "epoch",
        clock=f"{content.path} {' '.join(ops[0].process)}" if clock == "process" else None,
        quality=Quality(
            unsized=unsized,
            warnings=remarks(source, notes),
        ),
    )


def _rank(ops: Sequence[Operation]) -> int | None:
    """The rank in the biggest communicator, which is the run's; None where two biggest disagree."""
    biggest = max(op.size or 0 for op in ops)
    ranks = {op.rank for op in ops if (op.size or 0) == biggest}
    return ranks.pop() if len(ranks) == 1 else None


def _spans(ops: Sequence[Operation]) -> pl.DataFrame:
    told = (
        *("kind", "name", "issued_ns", "start_ns", "end_ns", "group", "elements", "nbytes"),
        *("dtype", "flags", "sequence"),
    )
    columns: dict[str, list[Any]] = {name: [getattr(op, name) for op in ops] for name in told}
    return tabulate({**columns, "stream": ["NCCL"] * len(ops)})
