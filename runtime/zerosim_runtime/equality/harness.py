"""Runs cases on real ranks (or fake ones), one start per world size, and compares them with plans."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import orjson

from zerosim.errors import RuntimeFailedError
from zerosim.plan import Plan
from zerosim.scenario import plan_of
from zerosim_runtime.agents import environment
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.rank import BATCH_FILE, seen_file
from zerosim_runtime.equality.seen import Seen, compared, n_collectives, planned, row_from
from zerosim_runtime.launch import run_ranks

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with what came of it: `collectives` of one rank, and `difference` (None: all equal)."""

    case: Case
    collectives: int
    difference: str | None


Watched = dict[int, list[Seen] | str]
"""By rank, what it was seen to do, or why nothing was seen."""


def outcomes(cases: Iterable[Case], tell: Progress) -> list[Outcome]:
    """Run and compare all cases, in the order given; every rank of each."""
    listed = list(cases)
    found = {
        (case.family, case.name): judged(case, plan_of(scenario_of(case)), watched)
        for case, watched in observed(listed, tell)
    }
    return [found[case.family, case.name] for case in listed]


def judged(case: Case, plan: Plan, watched: Watched) -> Outcome:
    """Compare what each rank was seen to do with what the plan says of it."""
    differences: list[str] = []
    for rank, rows in watched.items():
        if isinstance(rows, str):
            differences.append(f"rank {rank} failed: {rows}")
            continue
        mismatch = compared(planned(plan, rank), rows)
        if mismatch is not None:
            differences.append(f"rank {rank} at row {mismatch.position}:\n{mismatch.text}")
    counted = n_collectives(planned(plan, case.ranks[0]))
    return Outcome(case, counted, differences[0] if differences else None)


def observed(cases: Iterable[Case], tell: Progress) -> Iterator[tuple[Case, Watched]]:
    """Run all cases, one start for each number of ranks, and say what each rank was seen to do."""
    for (fake, size), same in groupby(sorted(cases, key=_start), key=_start):
        batch = list(same)
        tell(f"{len(batch)} cases on {size} {'fake' if fake else 'real'} ranks")
        yield from _batch(batch)


def _start(case: Case) -> tuple[bool, int]:
    return case.fake, case.world_size


def _batch(cases: list[Case]) -> Iterator[tuple[Case, Watched]]:
    """All cases of one world size; when one ends the ranks, the next start goes on after it."""
    done = 0
    while done < len(cases):
        rest = cases[done:]
        with tempfile.TemporaryDirectory(prefix="zerosim-equality-") as name:
            directory = Path(name)
            _run(rest, directory)
            ran = [case for case in rest if _was_run(case, directory)]
            if not ran:
                raise RuntimeFailedError(
                    f"no rank of case '{rest[0].name}' left a word: {_tail(directory)}"
                )
            done += len(ran)
            yield from ((case, _watched(case, directory)) for case in ran)


def _was_run(case: Case, directory: Path) -> bool:
    return any(seen_file(directory, case, rank).exists() for rank in case.ranks)


def _run(cases: Sequence[Case], directory: Path) -> None:
    named = [(case.family, case.name) for case in cases]
    (directory / BATCH_FILE).write_bytes(orjson.dumps(named))
    command = ["-m", "zerosim_runtime.equality.rank", str(directory)]
    if not cases[0].fake:
        run_ranks(command, directory, cases[0].world_size)
        return
    with (directory / "torchrun.log").open("wb") as log:
        subprocess.run(
            [sys.executable, *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(1),
            check=False,
        )


def _tail(directory: Path) -> str:
    return (directory / "torchrun.log").read_text(errors="replace")[-2000:]


def _watched(case: Case, directory: Path) -> Watched:
    return {rank: _seen(seen_file(directory, case, rank)) for rank in case.ranks}


def _seen(path: Path) -> list[Seen] | str:
    found = orjson.loads(path.read_bytes()) if path.exists() else {"error": "it was not seen"}
    return str(found["error"]) if "error" in found else [row_from(row) for row in found["rows"]]
