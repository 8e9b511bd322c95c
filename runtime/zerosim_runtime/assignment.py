"""What the launcher asks of its ranks, as one file in the directory where they write."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from zerosim.errors import RunError, ZerosimError
from zerosim.plan import Plan
from zerosim.replay import replay_of
from zerosim.scenario import Scenario, plan_of
from zerosim.store import load_run
from zerosim_runtime.places import ASSIGNMENT_FILE, Where, content_of, places

RUN: Final = "run"
"""Where the run lies that is replayed."""
LOCK_FILE: Final = "launcher.lock"
"""Locked as long as the launcher lives; a rank that gets the lock knows that it is alone."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A scenario to run for real, or, if `replays`, the run that lies beside it as `run`.

    `backend`: auto, gloo or nccl. `timeout_s`: how long a collective may take. `poison`: new memory is
    NaN until it is filled. `machine`: the cluster section that the run is stored with (None: by backend).
    `rss`: ranks note at every op how much of them is resident.
    """

    scenario: dict[str, Any]
    backend: str
    timeout_s: float
    poison: bool = False
    machine: dict[str, Any] | None = None
    replays: bool = False
    rss: bool = False


def write_assignment(assignment: Assignment, directory: Path) -> None:
    """Write an assignment for the ranks to read."""
    (directory / ASSIGNMENT_FILE).write_bytes(orjson.dumps(asdict(assignment)))


def read_assignment(where: Where) -> tuple[Assignment, Scenario]:
    """Read the assignment of one node or of several, and the scenario in it.

    Raises RunError if there is none, or if nodes had different ones.
    """
    first, *others = places(where)
    content = _content(first)
    for other in others:
        if _content(other) != content:
            raise RunError(
                f"'{first}' and '{other}' were asked to do different things: they are not of one run"
            )
    try:
        assignment = Assignment(**orjson.loads(content))
        return assignment, Scenario.from_dict(assignment.scenario)
    except (orjson.JSONDecodeError, TypeError, ZerosimError) as error:
        raise RunError(_nothing(first, error)) from None


def assigned_plan(where: Where, assignment: Assignment, scenario: Scenario) -> Plan:
    """What the ranks of an assignment carry out. Raises RunError, TraceFileError."""
    if assignment.replays:
        return replay_of(load_run(places(where)[0] / RUN)).plan
    return plan_of(scenario)


def digest(assignment: Assignment) -> str:
    """Equal for two nodes if they were asked to do the same."""
    return hashlib.sha256(orjson.dumps(asdict(assignment))).hexdigest()


def _content(place: Path) -> bytes:
    try:
        content = content_of(place / ASSIGNMENT_FILE)
    except OSError as error:
        raise RunError(_nothing(place, error)) from None
    if content is None:
        raise RunError(_nothing(place, f"there is no {ASSIGNMENT_FILE}"))
    return content


def _nothing(place: Path, reason: object) -> str:
    return f"'{place}' holds no records of ranks ({reason}): give what `trace` left behind"
