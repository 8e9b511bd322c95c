"""How long each rank computed, communicated and moved memory, and what communication was exposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zerosim.analysis.intervals import Intervals, measure_by
from zerosim.kinds import COMMUNICATION, COMPUTE, KINDS, MEMORY, Kind
from zerosim.trace import Flag, Trace

COMPUTING, COMMUNICATING, MOVING = 1, 2, 3
"""Codes of `activity`: the compute units work, the network works, memory moves; 0 is none."""

_ACTIVITY: Final = {
    **dict.fromkeys(COMPUTE, COMPUTING),
    **dict.fromkeys(COMMUNICATION, COMMUNICATING),
    **dict.fromkeys(MEMORY, MOVING),
}


@dataclass(frozen=True, slots=True)
class Busy:
    """Busy times in ns: unions over streams. Null is unknown: nothing of the sort was timed.

    `exposed_ns`: communication during which the rank computed nothing.
    """

    compute_ns: int | None
    comm_ns: int | None
    mem_ns: int | None
    exposed_ns: int | None


UNKNOWN: Final = Busy(None, None, None, None)


@dataclass(frozen=True, slots=True)
class _Work:
    """Spans that keep a device busy, as arrays."""

    rank: NDArray[np.int64]
    step: NDArray[np.int64]
    activity: NDArray[np.int64]
    intervals: Intervals
    timed: NDArray[np.bool_]

    def only(self, rows: NDArray[np.bool_]) -> _Work:
        """The same work, some rows of it."""
        return _Work(
            self.rank[rows],
            self.step[rows],
            self.activity[rows],
            Intervals(self.intervals.starts[rows], self.intervals.ends[rows]),
            self.timed[rows],
        )


def activity(kind: pl.Series) -> NDArray[np.int64]:
    """The activity code of each kind in a column of spans."""
    table = np.array([_ACTIVITY.get(Kind(k), 0) for k in KINDS], dtype=np.int64)
    codes: NDArray[np.int64] = table[kind.to_physical().to_numpy()]
    return codes


def busy_whole(trace: Trace) -> dict[int, Busy]:
    """Busy times of each rank that has rows, over the whole run."""
    work = _work(trace.spans)
    ranks = np.array(trace.ranks, dtype=np.int64)
    found = _busy(work, np.searchsorted(ranks, work.rank), len(ranks))
    return dict(zip(trace.ranks, found, strict=True))


def busy_by_step(trace: Trace) -> dict[tuple[int, int], Busy]:
    """Busy times by (rank, step): a span counts to the step it was launched in, whole.

    Steps of ranks none of whose work is known to belong to a step are unknown.
    """
    work = _work(trace.spans)
    stepped = work.only(work.step >= 0)
    keys = sorted({(w.rank, w.step) for w in trace.meta.steps})
    if not keys or not len(stepped.rank):
        return dict.fromkeys(keys, UNKNOWN)
    rank, step = np.array(keys, dtype=np.int64).T
    base = int(max(step.max(), stepped.step.max())) + 1
    code, mine = rank * base + step, stepped.rank * base + stepped.step
    place = np.searchsorted(code, mine)
    known = (place < len(code)) & (code[np.minimum(place, len(code) - 1)] == mine)
    found = _busy(stepped.only(known), place[known], len(keys))
    assigned, timed_comm = set(stepped.rank.tolist()), _communicated(work)
    return {
        key: _in_step(b, key[0] in assigned, key[0] in timed_comm)
        for key, b in zip(keys, found, strict=True)
    }


def _work(spans: pl.DataFrame) -> _Work:
    code = activity(spans["kind"])
    rows = code > 0
    chosen = spans.filter(pl.Series(rows))
    return _Work(
        chosen["rank"].cast(pl.Int64).to_numpy(),
        chosen["step"].cast(pl.Int64).fill_null(-1).to_numpy(),
        code[rows],
        Intervals(chosen["start_ns"].to_numpy(), chosen["end_ns"].to_numpy()),
        (chosen["flags"].to_numpy() & int(Flag.UNTIMED)) == 0,
    )


def _busy(work: _Work, segment: NDArray[np.int64], n: int) -> list[Busy]:
    def total(rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        part = work.only(rows)
        return measure_by(segment[rows], part.intervals, n)

    computing, communicating = work.activity == COMPUTING, work.activity == COMMUNICATING
    compute, comm, mem = total(computing), total(communicating), total(work.activity == MOVING)
    exposed = total(computing | communicating) - compute
    timed = _has(segment, work.timed, n)
    mute = _has(segment, communicating, n) & ~_has(segment, communicating & work.timed, n)
    return [
        _one(compute[i], comm[i], mem[i], exposed[i], mute=bool(mute[i])) if timed[i] else UNKNOWN
        for i in range(n)
    ]


def _has(segment: NDArray[np.int64], rows: NDArray[np.bool_], n: int) -> NDArray[np.bool_]:
    return np.bincount(segment[rows], minlength=n) > 0


def _one(
    compute: np.int64, comm: np.int64, mem: np.int64, exposed: np.int64, *, mute: bool
) -> Busy:
    # Collectives that were called but never timed leave communication unknown, not zero.
    if mute:
        return Busy(int(compute), None, int(mem), None)
    return Busy(int(compute), int(comm), int(mem), int(exposed))


def _communicated(work: _Work) -> set[int]:
    called = work.activity == COMMUNICATING
    return set(work.rank[~called].tolist()) | set(work.rank[called & work.timed].tolist())


def _in_step(busy: Busy, assigned: bool, timed: bool) -> Busy:
    # A rank whose work is known, but that did nothing in this step, did nothing for 0 ns.
    return Busy(0, 0, 0, 0) if busy == UNKNOWN and assigned and timed else busy
