"""Runs cases on real ranks (or fake ones), one start per world size, and compares them with plans."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import orjson

from zerosim.errors import RuntimeFailedError
from zerosim.scenario import plan_of
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.rank import BATCH_FILE, seen_file
from zerosim_runtime.equality.seen import compared, n_collectives, planned, row_from
from zerosim_runtime.launch import environment, run_ranks

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with what came of it: `collectives` of one rank, and `difference` (None: all equal)."""

    case: Case
    collectives: int
    difference: str | None


def outcomes(cases: Iterable[Case], tell: Progress) -> list[Outcome]:
    """Run and compare all cases, in the order given; every rank of each."""
    listed = list(cases)
    found: dict[tuple[str, str], Outcome] = {}
    for (fake, size), same in groupby(sorted(listed, key=_start), key=_start):
        batch = list(same)
        tell(f"{len(batch)} cases on {size} {'fake' if fake else 'real'} ranks")
        for outcome in _batch(batch):
            found[outcome.case.family, outcome.case.name] = outcome
    return [found[case.family, case.name] for case in listed]


def _start(case: Case) -> tuple[bool, int]:
    return case.fake, case.world_size


def _batch(cases: list[Case]) -> list[Outcome]:
    """All cases of one world size; when one ends the ranks, the next start goes on after it."""
    done: list[Outcome] = []
    while len(done) < len(cases):
        rest = cases[len(done) :]
        with tempfile.TemporaryDirectory(prefix="zerosim-equality-") as name:
            directory = Path(name)
            _run(rest, directory)
            ran = [case for case in rest if _was_run(case, directory)]
            if not ran:
                raise RuntimeFailedError(
                    f"no rank of case '{rest[0].name}' left a word: {_tail(directory)}"
                )
            done += [_outcome(case, directory) for case in ran]
    return done


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


def _outcome(case: Case, directory: Path) -> Outcome:
    plan = plan_of(scenario_of(case))
    differences: list[str] = []
    for rank in case.ranks:
        ours = planned(plan, rank)
        path = seen_file(directory, case, rank)
        found = orjson.loads(path.read_bytes()) if path.exists() else {"error": "it was not seen"}
        if "error" in found:
            differences.append(f"rank {rank} failed: {found['error']}")
            continue
        mismatch = compared(ours, [row_from(row) for row in found["rows"]])
        if mismatch is not None:
            differences.append(f"rank {rank} at row {mismatch.position}:\n{mismatch.text}")
    counted = n_collectives(planned(plan, case.ranks[0]))
    return Outcome(case, counted, differences[0] if differences else None)
