"""Whether ranks ran one program, and which of their collectives took turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zerosim.replay.pieces import Piece, keys


def agree(found: Mapping[int, Sequence[Piece]]) -> bool:
    """Whether all ranks did the same, op by op."""
    first, *others = (keys(pieces) for pieces in found.values())
    return all(other == first for other in others)


def disagreement(found: Mapping[int, Sequence[Piece]]) -> str:
    """Where two ranks part, in one clause."""
    (a, mine), *others = ((rank, [p for p in ps if p.communicates]) for rank, ps in found.items())
    for b, theirs in others:
        for i, (one, other) in enumerate(zip(mine, theirs, strict=False)):
            if (one.kind, one.elements) != (other.kind, other.elements):
                return f"rank {a} issued '{one.name}' as collective {i}, rank {b} '{other.name}'"
        if len(mine) != len(theirs):
            return f"rank {a} issued {len(mine)} collectives, rank {b} {len(theirs)}"
    return "ranks compute on different streams between their collectives"


def serial_groups(pieces: Sequence[Piece]) -> frozenset[str]:
    """The groups whose collectives never ran at the same time: each has one queue."""
    until: dict[str, int] = {}
    several: set[str] = set()
    for p in sorted(pieces, key=lambda p: p.start_ns):
        if p.communicates and p.group is not None:
            if p.start_ns < until.get(p.group, p.start_ns):
                several.add(p.group)
            until[p.group] = max(until.get(p.group, 0), p.end_ns)
    return frozenset(until) - several
