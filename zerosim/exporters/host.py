"""The host's thread as it can be drawn: the steps, and the calls that launched what streams ran."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from zerosim.kinds import HOST_SIDE, Kind
from zerosim.trace import StepWindow

_LAUNCH_NS: Final = 1_000
"""How long a launch is drawn, if there is room before the next one: nobody measured it."""


class Mark(NamedTuple):
    """Something on the host, in ns; `row` is the place of the span that it launched."""

    start: int
    end: int
    name: str
    row: int | None


def is_launched(row: dict[str, Any]) -> bool:
    """Whether it is known when the host launched a span."""
    return row["issued_ns"] is not None and Kind(row["kind"]) not in HOST_SIDE


def host_marks(rows: Sequence[dict[str, Any]], windows: Sequence[StepWindow]) -> list[Mark]:
    """Steps, then launches in the order of `rows` (the spans of one rank)."""
    launched = [(place, row) for place, row in enumerate(rows) if is_launched(row)]
    moments = sorted({row["issued_ns"] for _, row in launched})
    marks = [Mark(w.start_ns, w.end_ns, f"ProfilerStep#{w.step}", None) for w in windows]
    for place, row in launched:
        start = row["issued_ns"]
        following = bisect_right(moments, start)
        room = moments[following] - start if following < len(moments) else _LAUNCH_NS
        memory = Kind(row["kind"]) is Kind.MEMORY_OP
        name = "cudaMemcpyAsync" if memory else "cudaLaunchKernel"
        marks.append(Mark(start, start + min(room, _LAUNCH_NS), name, place))
    return marks
