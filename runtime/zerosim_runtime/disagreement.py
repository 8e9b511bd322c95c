"""Two ranks that took one collective for different ones, found in what they noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zerosim.kinds import SAME_SIZE, Kind
from zerosim_runtime.places import Where
from zerosim_runtime.ring import Noted, read_ring


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a run must end, in one clause, and the ranks to blame."""

    ranks: tuple[int, ...]
    reason: str


def disagreement(where: Where, n_ranks: int) -> Verdict | None:
    """The first collective that two ranks took for different ones, from the rings they left."""
    return apart({rank: read_ring(where, rank) for rank in range(n_ranks)})


def apart(rings: Mapping[int, tuple[Noted, ...]]) -> Verdict | None:
    """The first collective that two ranks took for different ones, from what each has noted."""
    first: dict[tuple[str, int], tuple[int, Noted]] = {}
    found: list[tuple[int, Verdict]] = []
    for rank, ring in rings.items():
        for noted in ring:
            if noted.kind == Kind.P2P:
                continue
            other, theirs = first.setdefault((noted.group, noted.seq), (rank, noted))
            if _differ(noted, theirs):
                reason = _told_apart(other, theirs, rank, noted)
                found.append((noted.seq, Verdict((other, rank), reason)))
    return min(found, key=lambda each: each[0], default=(0, None))[1]


def _differ(one: Noted, other: Noted) -> bool:
    sized = one.kind in SAME_SIZE and one.elements and other.elements
    return (
        one.kind != other.kind
        or (one.unit != other.unit and bool(one.unit and other.unit))
        or bool(sized and one.elements != other.elements)
    )


def _told_apart(rank: int, noted: Noted, other: int, theirs: Noted) -> str:
    mine, others = f"'{noted.name}'", f"'{theirs.name}'"
    if noted.elements != theirs.elements and noted.elements and theirs.elements:
        mine += f" of {noted.elements} elements"
        others += f" of {theirs.elements}"
    return (
        f"ranks disagree: rank {rank} issued {mine} and rank {other} {others} "
        f"as seq {noted.seq} of group '{noted.group}'"
    )
