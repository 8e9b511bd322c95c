"""What the launcher asks of its ranks, as one file in the directory where they write."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim.errors import RunError, ZerosimError
from zerosim.scenario import Scenario

ASSIGNMENT_FILE: Final = "assignment.json"
LOCK_FILE: Final = "launcher.lock"
"""Locked as long as the launcher lives; a rank that gets the lock knows that it is alone."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A scenario to run for real.

    `backend`: auto, gloo or nccl. `timeout_s`: how long a collective may take. `poison`: new memory is
    NaN until it is filled.
    """

    scenario: dict[str, Any]
    backend: str
    timeout_s: float
    poison: bool = False


def write_assignment(assignment: Assignment, directory: Path) -> None:
    """Write an assignment for the ranks to read."""
    (directory / ASSIGNMENT_FILE).write_bytes(orjson.dumps(asdict(assignment)))


def read_assignment(directory: Path) -> tuple[Assignment, Scenario]:
    """Read an assignment, and the scenario in it. Raises RunError."""
    try:
        assignment = Assignment(**orjson.loads((directory / ASSIGNMENT_FILE).read_bytes()))
        return assignment, Scenario.from_dict(assignment.scenario)
    except (OSError, orjson.JSONDecodeError, TypeError, ZerosimError) as error:
        raise RunError(
            f"'{directory}' holds no records of ranks ({error}): give what `trace` left behind"
        ) from None
