"""A trace as a plan again: the ops that every rank did, what they waited for, and how long each took."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from zerosim.collectives import COSTED
from zerosim.errors import TraceFileError
from zerosim.kinds import Kind
from zerosim.plan import Axis, Op, Plan
from zerosim.replay.agreement import agree, disagreement, serial_groups
from zerosim.replay.pieces import Piece, pieces_of
from zerosim.trace import Trace

MAX_FINE: Final = 20_000
"""More ops of a rank than that are joined to one between collectives."""
_ALONE: Final = "alone"
_REDUCTIONS: Final = (Kind.REDUCE_SCATTER, Kind.ALL_REDUCE, Kind.REDUCE)
_PRICED: Final = tuple(kind for kind in COSTED if kind is not Kind.P2P)
"""A message has one receiver, and the other ranks of its group none."""
_LAYER: Final = (Kind.FORWARD, Kind.BACKWARD, Kind.RECOMPUTE)


@dataclass(frozen=True, slots=True)
class Replay:
    """A run as a program.

    `durations`: ns of every op by rank; a collective's is its transfer, once the last rank had come.
    `priced`: the collectives whose time a cluster's model can tell. `taken_from`: for each rank, the
    one whose rows stand for it. `blocking`: computing keeps the host from issuing (a CPU).
    `source_ns`: how long the run took, from its first op to the end of its last.
    """

    plan: Plan
    durations: tuple[tuple[int, ...], ...]
    priced: frozenset[int]
    taken_from: tuple[int, ...]
    blocking: bool
    source_ns: int

    @property
    def kept(self) -> int:
        """Collectives that no model can price: they take what they took."""
        return sum(op.group is not None for op in self.plan.ops) - len(self.priced)


def replay_of(trace: Trace) -> Replay:
    """The program of a run. Raises TraceFileError if its ranks did not run one program."""
    blocking = _on_cpu(trace)
    found = pieces_of(trace, fine=True, blocking=blocking)
    if not found:
        raise TraceFileError(f"run '{trace.meta.name}' has no op with times: record one that has")
    if not agree(found) or max(map(len, found.values())) > MAX_FINE:
        found = pieces_of(trace, fine=False, blocking=blocking)
    if not agree(found):
        raise TraceFileError(
            f"{disagreement(found)}: a run can be replayed if its ranks run one program"
        )
    seen = sorted(found)
    world = trace.meta.world_size or len(seen)
    taken = tuple(max((r for r in seen if r <= rank), default=seen[0]) for rank in range(world))
    return _Writer(trace, found, taken, blocking=blocking).write()


def _on_cpu(trace: Trace) -> bool:
    """Whether what computed was the host: Gloo moved the bytes, as the engine or its queues' names say.

    Engines are "gloo" and "paced:400Mbit" of plans, "fsdp2 on gloo" of programs, and of replays what
    they replay ("maxplus of gloo").
    """
    moved_by = (trace.meta.engine or "").rpartition(" ")[2]
    if moved_by == "gloo" or moved_by.startswith("paced:"):
        return True
    streams = trace.spans["stream"].cast(pl.String).unique()
    return bool(streams.str.starts_with("gloo").any())


class _Writer:
    """Writes ops one after the other, each with the gap of the host before it."""

    def __init__(
        self,
        trace: Trace,
        found: Mapping[int, Sequence[Piece]],
        taken: tuple[int, ...],
        *,
        blocking: bool,
    ) -> None:
        self.trace, self.found, self.taken, self.blocking = trace, found, taken, blocking
        self.axes: dict[str, Axis] = {}
        self.ops: list[Op] = []
        self.durations: list[tuple[int, ...]] = []
        self.priced: set[int] = set()
        self.place: dict[int, int] = {}
        """Of a collective of the trace, the op that stands for it."""
        self.ended: dict[int, list[tuple[int, int]]] = {}
        """By rank: when computing ended, and the op that stands for it."""
        self.serial = serial_groups(next(iter(found.values())))
        self.moved: dict[tuple[int, str], int] = {}
        """By rank and stream: when its last collective ended."""

    def write(self) -> Replay:
        free = began = self._origins()
        for i in range(len(next(iter(self.found.values())))):
            row = {rank: pieces[i] for rank, pieces in self.found.items()}
            self._gaps(row, free)
            self._op(row)
            free = {rank: max(free[rank], self._host_free(p)) for rank, p in row.items()}
        name = f"{self.trace.meta.name}, replayed"
        plan = Plan(name, len(self.taken), tuple(self.ops), tuple(self.axes.values()))
        ended = {rank: max(p.end_ns for p in pieces) for rank, pieces in self.found.items()}
        return Replay(
            plan=plan,
            durations=tuple(self.durations),
            priced=frozenset(self.priced),
            taken_from=self.taken,
            blocking=self.blocking,
            source_ns=max(ended[rank] - began[rank] for rank in ended),
        )

    def _origins(self) -> dict[int, int]:
        """When the run began, on the clock of every rank: its members end a collective together."""
        ended = dict.fromkeys(self.found, 0)
        if not self.trace.meta.clock.aligned:
            for row in zip(*self.found.values(), strict=True):
                if row[0].communicates and len({p.collective for p in row}) == 1:
                    ended = {r: p.end_ns for r, p in zip(self.found, row, strict=True)}
                    break
        first = min(self.found[rank][0].issued_ns - at for rank, at in ended.items())
        return {rank: first + at for rank, at in ended.items()}

    def _host_free(self, piece: Piece) -> int:
        if self.blocking and not piece.communicates:
            return piece.end_ns
        return piece.issued_ns

    def _gaps(self, row: Mapping[int, Piece], free: Mapping[int, int]) -> None:
        """What the host did before it came to this op, on every rank: before it waited, and after."""
        before: dict[int, int] = {}
        after: dict[int, int] = {}
        for rank, p in row.items():
            ready = p.ready_ns if self.blocking else None
            if ready is None:
                before[rank], after[rank] = max(0, p.issued_ns - free[rank]), 0
            else:
                early = p.issued_ns < ready
                before[rank] = max(0, p.issued_ns - free[rank]) if early else 0
                after[rank] = max(0, p.start_ns - ready)
        piece = next(iter(row.values()))
        self._host(f"before {piece.name}", piece, before, ())
        self._host(f"to {piece.name}", piece, after, tuple(sorted(set(self._after(row)))))

    def _host(
        self, doing: str, piece: Piece, took: Mapping[int, int], after: tuple[int, ...]
    ) -> None:
        if not any(took.values()):
            return
        op = Op(
            id=len(self.ops),
            name=doing,
            kind=Kind.HOST,
            stream="host",
            after=after,
            blocks=True,
            step=piece.step,
            micro_batch=piece.micro_batch,
        )
        self._add(op, took)

    def _op(self, row: Mapping[int, Piece]) -> None:
        piece = next(iter(row.values()))
        axis = self._axis(row) if piece.communicates else None
        elements, dtype = _sized(piece)
        op = Op(
            id=len(self.ops),
            name=piece.name,
            kind=piece.kind,
            stream=piece.stream,
            after=tuple(sorted(set(self._after(row)))),
            unit=piece.unit,
            elements=elements if piece.communicates else piece.elements,
            dtype=dtype if piece.communicates else piece.dtype,
            group=None if axis is None else axis.name,
            communicator=None if axis is None else self._communicator(axis, piece),
            bucket=piece.bucket,
            step=piece.step,
            micro_batch=piece.micro_batch,
        )
        if axis is None:
            for rank, p in row.items():
                insort(self.ended.setdefault(rank, []), (p.end_ns, op.id))
            self._add(op, {rank: p.duration_ns for rank, p in row.items()})
            return
        if axis.name != _ALONE and piece.nbytes is not None and piece.kind in _PRICED:
            self.priced.add(op.id)
        for rank, each in row.items():
            self.moved[rank, each.stream] = each.end_ns
            if each.collective is not None:
                self.place[each.collective] = op.id
        self._add(op, self._transfer(row))

    def _communicator(self, axis: Axis, piece: Piece) -> str:
        return axis.name if piece.group in self.serial else f"{axis.name} {piece.stream}"

    def _transfer(self, row: Mapping[int, Piece]) -> dict[int, int]:
        """What a collective took each rank once all had come.

        Where the clocks are not known to agree, none are compared: the rank that came last only moved
        bytes, and what it took is what all take.
        """
        clock = self.trace.meta.clock
        together = clock.aligned and clock.error_ns is not None
        came: dict[int | None, int] = {}
        least: dict[int | None, int] = {}
        for p in row.values():
            came[p.collective] = max(came.get(p.collective, p.start_ns), p.start_ns)
            least[p.collective] = min(least.get(p.collective, p.duration_ns), p.duration_ns)
        return {
            rank: p.duration_ns
            if p.collective is None
            else max(0, p.end_ns - came[p.collective])
            if together
            else least[p.collective]
            for rank, p in row.items()
        }

    def _axis(self, row: Mapping[int, Piece]) -> Axis:
        """The process groups that issue this op, one shape for all; alone where nobody knows them."""
        piece = next(iter(row.values()))
        groups = {group.name: group for group in self.trace.meta.groups}
        group = groups.get(piece.group or "")
        if group is None or piece.collective is None:
            return self.axes.setdefault(_ALONE, Axis(_ALONE, 1))
        ranks = group.ranks or tuple(range(group.size))
        stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
        even = ranks == tuple(range(ranks[0], ranks[0] + group.size * stride, stride))
        if not even or len(self.taken) % (group.size * stride):
            raise TraceFileError(
                f"group '{group.name}' has ranks {list(ranks)[:8]} of {len(self.taken)}: a run can be "
                "replayed if its groups are as large as each other and evenly spaced"
            )
        name = "world" if group.size == len(self.taken) else f"{group.size} ranks {stride} apart"
        return self.axes.setdefault(name, Axis(name, group.size, stride))

    def _after(self, row: Mapping[int, Piece]) -> Iterator[int]:
        """See Note [What waited for what]."""
        for rank, p in row.items():
            yield from (self.place[c] for c in p.awaited if c in self.place)
            if p.communicates and not self.blocking:
                yield from self._computed(rank, p)
        piece = next(iter(row.values()))
        if piece.kind in _LAYER and piece.unit is not None:
            yield from self._last(lambda op: op.kind is Kind.ALL_GATHER and op.unit == piece.unit)
        elif piece.kind is Kind.OPTIMIZER:
            yield from self._all_reductions(piece.step)
        elif piece.kind in _REDUCTIONS:
            yield from self._last(lambda op: op.group is None and op.kind is not Kind.HOST)

    def _computed(self, rank: int, piece: Piece) -> Iterator[int]:
        """The computing that had just ended when a collective began, though it could have sooner."""
        free = max(piece.issued_ns, self.moved.get((rank, piece.stream), 0))
        ended = self.ended.get(rank, [])
        at = bisect_right(ended, (piece.start_ns, len(self.ops)))
        if at and ended[at - 1][0] > free:
            yield ended[at - 1][1]

    def _last(self, wanted: Callable[[Op], bool]) -> Iterator[int]:
        last = next((op.id for op in reversed(self.ops) if wanted(op)), None)
        if last is not None:
            yield last

    def _all_reductions(self, step: int) -> Iterator[int]:
        yield from (op.id for op in self.ops if op.step == step and op.kind in _REDUCTIONS)

    def _add(self, op: Op, by_rank: Mapping[int, int]) -> None:
        self.ops.append(op)
        self.durations.append(tuple(by_rank[rank] for rank in self.taken))


def _sized(piece: Piece) -> tuple[int, str]:
    """Elements and dtype as a plan wants them; bytes where the dtype is unknown."""
    if piece.elements is not None and piece.dtype is not None:
        return piece.elements, piece.dtype
    return piece.nbytes or 0, "uint8"
