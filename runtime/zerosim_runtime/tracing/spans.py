"""A span of a traced program as a rank writes it down: one line of JSON, perf_counter nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from zerosim.errors import TraceFileError


@dataclass(frozen=True, slots=True)
class Span:
    """One op of one rank; columns as in `zerosim.trace.SPANS`, None: unknown.

    `seq` counts the collectives of a group from 0, so that ranks can be tied together. Times are this
    host's perf_counter; `start_ns` is when the op's queue came to it, `end_ns` when it was done.
    """

    kind: str
    name: str
    stream: str
    issued_ns: int
    start_ns: int | None = None
    end_ns: int | None = None
    unit: str | None = None
    step: int | None = None
    micro_batch: int | None = None
    group: str | None = None
    seq: int | None = None
    elements: int | None = None
    nbytes: int | None = None
    wire_bytes: int | None = None
    dtype: str | None = None
    bucket: int | None = None

    def line(self) -> dict[str, Any]:
        """The line of JSON that says it."""
        return {"span": _values(self)}


_WIDTH: Final = len(fields(Span))
_values: Final = attrgetter(*(field.name for field in fields(Span)))


def span_of(values: list[Any]) -> Span:
    """The span that a line says. Raises TraceFileError if it is none."""
    if len(values) != _WIDTH:
        raise TraceFileError(f"a span has {len(values)} fields: give {_WIDTH}")
    return Span(*values)
