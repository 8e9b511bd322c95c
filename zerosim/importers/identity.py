"""Who is who among the files of a run: which rank each one is of, and how many ranks there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from zerosim.errors import TraceFileError
from zerosim.importers.recording import Recording
from zerosim.trace import Group

_HINT: Final = re.compile(r"(?:rank|worker|\br)[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE)


def assign_ranks(recordings: Sequence[Recording]) -> tuple[list[int], tuple[str, ...]]:
    """The rank of each recording, and warnings where a file does not say it itself.

    What the file says counts, unless two files say the same; then its name; then its place in line.
    """
    told = [r.rank for r in recordings]
    hints = [_hint(r.source) for r in recordings]
    said = [r for r in told if r is not None]
    twice = sorted(r for r, n in Counter(said).items() if n > 1)
    if twice and len(set(hints)) == len(hints) and None not in hints:
        ranks = [hint for hint in hints if hint is not None]
        return ranks, (
            f"several files say they are rank {twice[0]}: ranks taken from the file names",
        )
    taken: set[int] = set()
    spoken_for = set(said)
    free = (number for number in count() if number not in spoken_for and number not in taken)
    ranks, warnings = [], []
    for recording, rank, hint in zip(recordings, told, hints, strict=True):
        if hint in taken or (hint in spoken_for and hint != rank):
            hint = None  # noqa: PLW2901 - another file's
        chosen, how = _choose(None if rank in taken else rank, hint, free)
        why = "does not say its rank" if rank is None else f"says rank {rank}, like another file"
        taken.add(chosen)
        ranks.append(chosen)
        warnings += [f"'{recording.source}' {why}: {chosen} {how}"] if how else []
    return ranks, tuple(warnings)


def distinct_sources(parts: Sequence[tuple[Path, Recording]]) -> list[Recording]:
    """The recordings, those of files that bear one name called by their folder too: `rank0/trace.json`."""
    files = Counter(path.name for path in {path for path, _ in parts})
    return [
        replace(recording, source=f"{path.parent.name}/{recording.source}")
        if files[path.name] > 1
        else recording
        for path, recording in parts
    ]


def with_rank(recordings: Sequence[Recording], rank: int | None) -> list[Recording]:
    """The recordings, the one that does not say its rank being of `rank` (None: as they are).

    Raises TraceFileError unless exactly one is silent.
    """
    silent = [r.source for r in recordings if r.rank is None]
    if rank is None:
        return list(recordings)
    if not silent:
        raise TraceFileError(
            f"'{recordings[0].source}' says itself that it is of rank {recordings[0].rank}:"
            f" leave out --rank {rank}"
        )
    if len(silent) > 1:
        raise TraceFileError(
            f"--rank {rank} names one file, but '{silent[0]}' and {len(silent) - 1} more do not say"
            " theirs: call the files rank0, rank1, …"
        )
    return [replace(r, rank=rank) if r.rank is None else r for r in recordings]


def world_size(
    recordings: Sequence[Recording], ranks: Sequence[int]
) -> tuple[int | None, tuple[str, ...]]:
    """How many ranks the run had (None: unknown), and a warning where the files contradict it."""
    declared = max((r.world_size for r in recordings if r.world_size), default=None)
    evident = max(
        [
            *(max((g.size, *(r + 1 for r in g.ranks or ()))) for r in recordings for g in r.groups),
            *(rank + 1 for rank in ranks if declared is not None or len(ranks) > 1),
        ],
        default=0,
    )
    if declared is not None and evident > declared:
        return evident, (
            f"the files say {declared} ranks, but {evident} take part: {evident} it is",
        )
    return declared or evident or None, ()


def name_groups(recordings: Sequence[Recording]) -> tuple[list[dict[str, str]], tuple[Group, ...]]:
    """For each recording, its groups' names in the run, and all groups.

    Groups that bear one name in several files but hold different ranks are told apart.
    """
    members: dict[str, set[tuple[int, ...] | None]] = {}
    for group in (g for r in recordings for g in r.groups):
        members.setdefault(group.name, set()).add(group.ranks)
    renamed = [
        {g.name: _told_apart(g, members[g.name]) for g in recording.groups}
        for recording in recordings
    ]
    groups: dict[str, Group] = {}
    for recording, names in zip(recordings, renamed, strict=True):
        for g in recording.groups:
            known = groups.get(names[g.name])
            if known is None or known.ranks is None:
                groups[names[g.name]] = Group(names[g.name], g.size, g.ranks)
    return renamed, tuple(groups.values())


def _told_apart(group: Group, members: set[tuple[int, ...] | None]) -> str:
    if len(members - {None}) <= 1 or group.ranks is None:
        return group.name
    return f"{group.name} of {','.join(map(str, group.ranks))}"


def _hint(source: str) -> int | None:
    found = _HINT.findall(source)
    return int(found[-1]) if found else None


def _choose(rank: int | None, hint: int | None, free: Iterator[int]) -> tuple[int, str]:
    """A rank, and by what it is that one (nothing to say where the file says it)."""
    if rank is not None:
        return rank, ""
    if hint is not None:
        return hint, "by its name"
    return next(free), "by its place in line"
