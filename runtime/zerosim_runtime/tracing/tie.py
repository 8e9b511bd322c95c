"""Which collectives of which ranks are one: the n-th of a group is the same for all of its members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zerosim.kinds import MUTUAL, SAME_SIZE, Kind
from zerosim_runtime.tracing.log import Log
from zerosim_runtime.tracing.spans import Span

_Place = tuple[str, tuple[int, ...], int]


@dataclass(slots=True)
class Tied:
    """One collective: what the first rank took it for, when it was issued last, and ended first."""

    number: int
    rank: int
    span: Span
    issued_ns: int
    ended_ns: int | None = None


@dataclass(slots=True)
class Ties:
    """`numbers`: the collective of each (rank, place in its spans). `problems`: what disagrees."""

    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    n_early: int = 0


def tie(logs: Sequence[Log]) -> Ties:
    """Tie the collectives of ranks whose clocks are aligned; ranks that disagree stay apart."""
    ties, seen = Ties(), dict[_Place, Tied]()
    count = 0
    for log in logs:
        for index, place, span in _collectives(log):
            tied = seen.get(place)
            if tied is None:
                tied = seen[place] = Tied(count, log.rank, span, span.issued_ns, span.end_ns)
                count += 1
            elif (problem := _difference(tied, log.rank, span)) is not None:
                ties.problems.append(problem)
                ties.numbers[log.rank, index] = count
                count += 1
                continue
            _take(tied, span)
            ties.numbers[log.rank, index] = tied.number
    ties.n_early = sum(map(_early, seen.values()))
    return ties


def described(span: Span) -> str:
    """A collective in a few words: its kind and unit, and how many elements."""
    unit = f" of '{span.unit}'" if span.unit else ""
    size = "" if span.elements is None else f" of {span.elements:,} elements"
    return f"{span.kind}{unit}{size}"


def _collectives(log: Log) -> Iterator[tuple[int, _Place, Span]]:
    for index, span in enumerate(log.spans):
        if span.seq is not None and span.group is not None and span.kind != Kind.P2P:
            yield index, (span.group, log.groups.get(span.group, ()), span.seq), span


def _difference(tied: Tied, rank: int, span: Span) -> str | None:
    first = tied.span
    sized = Kind(span.kind) in SAME_SIZE and None not in (first.elements, span.elements)
    if first.kind == span.kind and not (sized and first.elements != span.elements):
        return None
    return (
        f"rank {tied.rank} and rank {rank} disagree on collective {span.seq} of group "
        f"'{span.group}': {described(first)} met {described(span)}"
    )


def _take(tied: Tied, span: Span) -> None:
    tied.issued_ns = max(tied.issued_ns, span.issued_ns)
    if span.end_ns is not None:
        tied.ended_ns = span.end_ns if tied.ended_ns is None else min(tied.ended_ns, span.end_ns)


def _early(tied: Tied) -> bool:
    mutual = Kind(tied.span.kind) in MUTUAL
    return mutual and tied.ended_ns is not None and tied.ended_ns < tied.issued_ns
