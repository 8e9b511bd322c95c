"""What each op of a rank waited for, as far as its times and units tell: dependencies for a simulator.

See Note [What waited for what] in zerosim/replay/pieces.py; here it is told op by op, of one rank.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Any, Final

from zerosim.kinds import COMMUNICATION, COMPUTE, Kind

_LAYER: Final = (Kind.FORWARD, Kind.BACKWARD, Kind.RECOMPUTE)
_REDUCTIONS: Final = (Kind.REDUCE_SCATTER, Kind.ALL_REDUCE, Kind.REDUCE)
_LAST: Final = 2**63
_Ends = list[tuple[int, int]]
"""When ops ended, ascending, and which ones."""


def waits_of(rows: Sequence[dict[str, Any]]) -> list[list[int]]:
    """For each of `rows` (of one rank, in issue order), the rows it waited for, ascending.

    A row waits only for what had ended when it began, so that nothing waits in a circle.
    """
    times = [(row["start_ns"], row["end_ns"]) for row in rows]
    streams: dict[str, _Ends] = {}
    computed: _Ends = []
    moved: _Ends = []
    found: list[list[int]] = [[] for _ in rows]
    done: set[int] = set()
    by_unit = _by_unit(rows)
    for i in sorted(range(len(rows)), key=lambda i: (*times[i], i)):
        row = rows[i]
        own = streams.setdefault(row["stream"], [])
        wanted = {*_before(own, row, moved, computed), *by_unit[i]}
        found[i] = sorted(j for j in wanted if j in done and times[j][1] <= times[i][0])
        done.add(i)
        insort(own, (times[i][1], i))
        if row["kind"] in COMMUNICATION:
            insort(moved, (times[i][1], i))
        elif row["kind"] in COMPUTE:
            insort(computed, (times[i][1], i))
    return found


def _before(own: _Ends, row: dict[str, Any], moved: _Ends, computed: _Ends) -> Iterator[int]:
    """The op before it on its stream, and what ended while the stream was free."""
    start, issued = row["start_ns"], row["issued_ns"]
    at = bisect_right(own, (start, _LAST))
    free = start if issued is None else issued
    if at:
        free = own[at - 1][0]
        yield own[at - 1][1]
    if row["kind"] in COMMUNICATION:
        last = bisect_right(computed, (start, _LAST))
        if last and computed[last - 1][0] > max(free, free if issued is None else issued):
            yield computed[last - 1][1]
    else:
        gap = slice(bisect_right(moved, (free, _LAST)), bisect_right(moved, (start, _LAST)))
        yield from (j for _, j in moved[gap])


def _by_unit(rows: Sequence[dict[str, Any]]) -> list[list[int]]:
    """What units and kinds say: a layer needs its gather, an update all reductions of its step."""
    gathered: dict[str, int] = {}
    reduced: dict[int | None, list[int]] = {}
    found: list[list[int]] = []
    last = None
    for i, row in enumerate(rows):
        kind, unit, step = row["kind"], row["unit"], row["step"]
        needs: list[int] = []
        if kind in _LAYER and unit in gathered:
            needs = [gathered[unit]]
        elif kind == Kind.OPTIMIZER:
            needs = reduced.get(step, [])
        elif kind in _REDUCTIONS and last is not None:
            needs = [last]
        found.append(needs)
        if kind == Kind.ALL_GATHER and unit is not None:
            gathered[unit] = i
        elif kind in _REDUCTIONS:
            reduced.setdefault(step, []).append(i)
        elif kind in COMPUTE:
            last = i
    return found
