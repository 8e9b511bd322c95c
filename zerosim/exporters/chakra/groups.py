"""Process groups as Chakra wants them: each one set of ranks, under a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from zerosim.trace import Trace


@dataclass(frozen=True, slots=True)
class Numbered:
    """`numbers`: by group and rank, the number of the process group that the rank has under this name.

    `ranks`: by number; a group whose ranks nobody knows has none. `sizes`: by name.
    """

    numbers: Mapping[tuple[str, int], int]
    ranks: Mapping[int, tuple[int, ...]]
    sizes: Mapping[str, int]


def number_groups(trace: Trace, ranks: tuple[int, ...]) -> Numbered:
    """The groups of `trace`, numbered from 1: 0 stands for all ranks in ASTRA-sim.

    One name may stand for several groups, such as those of the ranks of each node: then those who
    took part in one collective are a group.
    """
    known = {group.name: group.ranks for group in trace.meta.groups}
    tied = _tied(trace)
    names = [*dict.fromkeys([*known, *(name for name, _ in tied)])]
    sets: dict[tuple[str, tuple[int, ...] | None], int] = {}
    numbers: dict[tuple[str, int], int] = {}
    for name in names:
        listed = known.get(name)
        for rank in ranks:
            members = listed if listed is not None else tied.get((name, rank))
            numbers[name, rank] = sets.setdefault((name, members), len(sets) + 1)
    sizes = {group.name: group.size for group in trace.meta.groups}
    for name, members in sets:
        sizes.setdefault(name, len(members) if members else 1)
    return Numbered(numbers, {n: members for (_, members), n in sets.items() if members}, sizes)


def _tied(trace: Trace) -> dict[tuple[str, int], tuple[int, ...]]:
    """By group and rank, who took part in its collectives; only where as many did as the group has."""
    wanted = {group.name: group.size for group in trace.meta.groups}
    together = (
        trace.spans.filter(pl.col("group").is_not_null() & pl.col("collective").is_not_null())
        .select(pl.col("group").cast(pl.String), "collective", "rank")
        .unique()
        .sort("group", "collective", "rank")
        .group_by("group", "collective", maintain_order=True)
        .agg("rank")
    )
    found: dict[tuple[str, int], tuple[int, ...]] = {}
    for name, _, members in together.iter_rows():
        if len(members) == wanted.get(name, len(members)):
            for rank in members:
                found.setdefault((name, rank), tuple(members))
    return found
