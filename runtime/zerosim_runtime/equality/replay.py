"""Families whose engine is hard to install: observed where it is, and compared from recordings anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zerosim.errors import RuntimeFailedError
from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.harness import Outcome, Progress, judged, observed
from zerosim_runtime.equality.recording import (
    Recording,
    Replay,
    read_recording,
    write_recording,
)


def record(
    replay: Replay, cases: Sequence[Case], versions: Mapping[str, str], tell: Progress
) -> None:
    """Observe the engine in these cases and write down what it did. Raises RuntimeFailedError."""
    for case, watched in observed(cases, tell):
        failed = [rows for rows in watched.values() if isinstance(rows, str)]
        if failed:
            raise RuntimeFailedError(f"case '{case.name}' cannot be recorded: {failed[0]}")
        seen = tuple(tuple(rows) for rows in watched.values() if not isinstance(rows, str))
        write_recording(Recording(case, versions, seen), replay.directory)


def replayed(replay: Replay, cases: Sequence[Case]) -> tuple[dict[str, str | None], list[Outcome]]:
    """Compare the recordings of these cases; and the versions that they were recorded with."""
    found: list[Outcome] = []
    versions: dict[str, str | None] = {}
    for case in cases:
        recording = read_recording(replay.directory / f"{case.name}.json")
        rows = [replay.rows_of(case, rank) for rank in recording.seen]
        found.append(judged(case, replay.plan_of(case), dict(enumerate(rows))))
        versions |= recording.versions
    return versions, found
