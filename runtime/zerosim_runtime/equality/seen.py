"""What a rank was seen to do, or is planned to do, as plain rows; and whether two lists agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from zerosim.kinds import COMMUNICATION, PREFIX, Kind
from zerosim.plan import Axis, Plan

MARKERS: Final = (Kind.FORWARD, Kind.BACKWARD, Kind.RECOMPUTE)


@dataclass(frozen=True, slots=True)
class Seen:
    """A collective over `ranks`, or a marker: a layer (`unit`) began its forward or backward.

    `elements` are the full tensor's; markers have neither elements nor dtype nor ranks.
    """

    step: int
    micro_batch: int
    kind: str
    elements: int | None = None
    dtype: str | None = None
    ranks: tuple[int, ...] = ()
    unit: str = ""

    def __str__(self) -> str:
        """`3.0 B2`, or `3.0 AR 590592 float32 of 3 ranks (0-2)`."""
        where, name = f"{self.step}.{self.micro_batch}", PREFIX.get(Kind(self.kind), self.kind)
        if self.elements is None:
            return f"{where} {name}{self.unit}"
        return f"{where} {name} {self.elements} {self.dtype} of {_ranks(self.ranks)}"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where two lists part; `text` shows them side by side."""

    position: int
    text: str


def _ranks(ranks: tuple[int, ...]) -> str:
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    if ranks and ranks == tuple(range(ranks[0], ranks[-1] + 1, stride)):
        step = f" by {stride}" if stride > 1 else ""
        return f"{len(ranks)} ranks ({ranks[0]}-{ranks[-1]}{step})"
    return f"ranks {', '.join(map(str, ranks))}"


def planned(plan: Plan, rank: int) -> list[Seen]:
    """The collectives and markers of a plan, as `rank` issues them."""
    axes = {axis.name: axis for axis in plan.axes}
    rows: list[Seen] = []
    for op in plan.ops:
        if op.kind in MARKERS:
            # A marker is named by its layer, which need not be its unit: the name carries it.
            name = op.name.removeprefix(PREFIX[op.kind])
            rows.append(Seen(op.step, op.micro_batch, op.kind.value, unit=name))
        elif op.kind in COMMUNICATION and op.group is not None:
            members = members_of(axes[op.group], rank)
            row = Seen(op.step, op.micro_batch, op.kind.value, op.elements, op.dtype, members)
            rows.append(row)
    return rows


def members_of(axis: Axis, rank: int) -> tuple[int, ...]:
    """The ranks of the group of that shape to which `rank` belongs."""
    block = axis.size * axis.stride
    first = rank // block * block + rank % axis.stride
    return tuple(range(first, first + block, axis.stride))


def compared(plan: Sequence[Seen], engine: Sequence[Seen]) -> Mismatch | None:
    """Where the plan and the engine part, None if they are equal row by row."""
    for position, (ours, theirs) in enumerate(zip_longest(plan, engine)):
        if ours != theirs:
            return Mismatch(position, side_by_side(plan, engine, position))
    return None


def side_by_side(plan: Sequence[Seen], engine: Sequence[Seen], position: int) -> str:
    """Both lists as two columns, from a few rows before `position` on; rows that differ have a `!`."""
    first = max(0, position - 5)
    rows = list(zip_longest(map(str, plan), map(str, engine), fillvalue=""))[first : position + 25]
    width = max(len("plan"), *(len(ours) for ours, _ in rows))
    lines = [f"    {'plan':<{width}}  engine"]
    lines += [f"  {_sign(ours, theirs)} {ours:<{width}}  {theirs}" for ours, theirs in rows]
    return "\n".join(lines)


def _sign(ours: str, theirs: str) -> str:
    return " " if ours == theirs else "!"


def n_collectives(rows: Iterable[Seen]) -> int:
    """How many rows are collectives."""
    return sum(Kind(row.kind) not in MARKERS for row in rows)


def row_to(seen: Seen) -> list[Any]:
    """A row for a JSON file."""
    return [
        *(seen.step, seen.micro_batch, seen.kind, seen.elements, seen.dtype),
        *(list(seen.ranks), seen.unit),
    ]


def row_from(record: Sequence[Any]) -> Seen:
    """A row as `row_to` wrote it."""
    step, micro_batch, kind, elements, dtype, ranks, unit = record
    return Seen(step, micro_batch, kind, elements, dtype, tuple(ranks), unit)
