"""Runs trainings on real ranks, one start for many of them, and says which are equal."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim_runtime.launch import run_ranks
from zerosim_runtime.zero.proof.cases import BAR, EXACT, Training
from zerosim_runtime.zero.proof.rank import TRAININGS_FILE, lines_file

Progress = Callable[[str], None]
FOREVER_S: Final = 1e6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a training: the largest differences over the ranks, or why there are none."""

    training: Training
    n_ranks: int
    loss_error: float
    parameter_error: float
    bitwise: bool
    skipped: int = 0
    error: str | None = None
    device: str = "cpu"

    @property
    def equal(self) -> bool:
        """Whether it is as near as it must be: to the bit (on CPUs), or in float64 to 1e-9."""
        if self.error is not None:
            return False
        if self.device == "cpu" and self.n_ranks <= EXACT and self.training.dtype != "float64":
            return self.bitwise
        near = max(self.loss_error, self.parameter_error)
        return near <= (BAR if self.training.dtype == "float64" else self.training.bar)

    @property
    def passed(self) -> bool:
        """Whether the training went as it should: equal, or, with a bug in it, noticed."""
        return self.equal if self.training.bug is None else not self.equal


def outcomes(
    trainings: Sequence[Training],
    n_ranks: int,
    checkpoints: Path,
    tell: Progress,
    *,
    device: str = "cpu",
    seconds: float = FOREVER_S,
) -> list[Outcome]:
    """Run all trainings on `n_ranks`; after one that fails the others go on with new ranks.

    `device`: cpu, or cuda, where each rank has a GPU. No training begins after so many `seconds`.
    """
    found: list[Outcome] = []
    until = time.monotonic() + seconds
    while len(found) < len(trainings) and time.monotonic() < until:
        rest = trainings[len(found) :]
        tell(f"{len(rest)} trainings on {n_ranks} ranks")
        with tempfile.TemporaryDirectory(prefix="zerosim-proof-") as name:
            asked = {
                "trainings": [asdict(training) for training in rest],
                "device": device,
                "seconds": until - time.monotonic(),
            }
            (Path(name) / TRAININGS_FILE).write_bytes(orjson.dumps(asked))
            found += _start(rest, n_ranks, Path(name), checkpoints, device)
    return found


def _start(
    trainings: Sequence[Training], n_ranks: int, directory: Path, checkpoints: Path, device: str
) -> list[Outcome]:
    command = ["-m", "zerosim_runtime.zero.proof.rank", str(directory), str(checkpoints)]
    run_ranks(command, directory, n_ranks)
    by_rank = [_lines(directory, rank) for rank in range(n_ranks)]
    done = max(1, *map(len, by_rank))
    log = (directory / "torchrun.log").read_text(errors="replace")[-2000:]
    return [
        replace(
            _outcome(training, n_ranks, [lines[i] for lines in by_rank if i < len(lines)], log),
            device=device,
        )
        for i, training in enumerate(trainings[:done])
    ]


def _lines(directory: Path, rank: int) -> list[dict[str, Any]]:
    path = lines_file(directory, rank)
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def _outcome(training: Training, n_ranks: int, lines: list[dict[str, Any]], log: str) -> Outcome:
    errors = [line["error"] for line in lines if "error" in line]
    if errors or len(lines) < n_ranks:
        error = errors[0] if errors else f"{n_ranks - len(lines)} ranks said nothing: {log}"
        return Outcome(training, n_ranks, float("inf"), float("inf"), bitwise=False, error=error)
    return Outcome(
        training,
        n_ranks,
        loss_error=max(line["loss_error"] for line in lines),
        parameter_error=max(line["parameter_error"] for line in lines),
        bitwise=all(line["bitwise"] for line in lines),
        skipped=max(line["skipped"] for line in lines),
    )
