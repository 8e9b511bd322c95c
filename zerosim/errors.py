"""What can go wrong, as one tree: each error is one sentence with name, value and remedy.

ZerosimError
├── InputError          what the user typed or handed in (exit code 2)
│   ├── UnknownNameError    a name that no registry knows, with "did you mean"
│   ├── ScenarioError       a scenario that makes no sense
│   ├── PlanError           a plan that cannot be carried out
│   ├── TraceFileError      a trace file we cannot read
│   ├── MeasurementError    a measurement that cannot be read, or cannot be true
│   └── RunError            a run directory we cannot read or write
└── RuntimeFailedError  real ranks that failed (exit code 1)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_SHOWN: Final = 200
"""Names that are listed at most; a model of a hundred blocks has a thousand modules."""


class ZerosimError(Exception):
    """The root: catching it catches everything that zerosim raises on purpose."""


class InputError(ZerosimError):
    """The input is wrong; the message says what, and what to do about it."""


class UnknownNameError(InputError):
    """A name that is not in the registry it was looked up in."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'? " if close else ""
        more = f", … ({len(names)} in all)" if len(names) > _SHOWN else ""
        super().__init__(f"no {what} '{name}': {hint}known: {', '.join(names[:_SHOWN])}{more}")


class ScenarioError(InputError):
    """A scenario with a value that makes no sense."""


class PlanError(InputError):
    """A plan that breaks its own rules, such as waiting for a later op."""


class TraceFileError(InputError):
    """A trace file that cannot be read."""


class MeasurementError(InputError):
    """A measurement that cannot be read, or cannot be true."""


class RunError(InputError):
    """A stored run that cannot be read, written, renamed or deleted."""


class RuntimeFailedError(ZerosimError):
    """Real ranks that died, hung or disagreed."""
