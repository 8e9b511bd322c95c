"""What the launcher asks of its ranks, as one JSON file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from zerosim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Job:
    """A scenario to run for real. `directory` is where ranks write; `lock` is held by the launcher.

    `poison`: new memory is NaN until it is filled. `timeout_s`: how long a collective may take.
    """

    scenario: dict[str, Any]
    directory: str
    backend: str
    timeout_s: float
    poison: bool = False


def write_job(job: Job, path: Path) -> None:
    """Write a job for the ranks to read."""
    path.write_bytes(orjson.dumps(asdict(job)))


def read_job(path: Path) -> tuple[Job, Scenario]:
    """Read a job, and the scenario in it."""
    job = Job(**orjson.loads(path.read_bytes()))
    return job, Scenario.from_dict(job.scenario)
