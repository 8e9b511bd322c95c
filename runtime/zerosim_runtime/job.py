"""What the launcher asks of its ranks, as one file in the directory where they write."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim.errors import RunError, ZerosimError
from zerosim.scenario import Scenario

JOB_FILE: Final = "job.json"
LOCK_FILE: Final = "launcher.lock"
"""Locked as long as the launcher lives; a rank that gets the lock knows that it is alone."""


@dataclass(frozen=True, slots=True)
class Job:
    """A scenario to run for real.

    `backend`: auto, gloo or nccl. `timeout_s`: how long a collective may take. `poison`: new memory is
    NaN until it is filled.
    """

    scenario: dict[str, Any]
    backend: str
    timeout_s: float
    poison: bool = False


def write_job(job: Job, directory: Path) -> None:
    """Write a job for the ranks to read."""
    (directory / JOB_FILE).write_bytes(orjson.dumps(asdict(job)))


def read_job(directory: Path) -> tuple[Job, Scenario]:
    """Read a job, and the scenario in it. Raises RunError."""
    try:
        job = Job(**orjson.loads((directory / JOB_FILE).read_bytes()))
        return job, Scenario.from_dict(job.scenario)
    except (OSError, orjson.JSONDecodeError, TypeError, ZerosimError) as error:
        raise RunError(
            f"'{directory}' holds no records of ranks ({error}): give what `trace` left behind"
        ) from None
