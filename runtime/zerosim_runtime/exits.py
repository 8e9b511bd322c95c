"""How processes ended, in words, and what torchrun and Python printed about it."""

from __future__ import annotations

import re
import signal
from typing import Final

_FIRST: Final = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)")
_EVERY: Final = re.compile(
    r"rank +: (?P<rank>\d+) \(local_rank: \d+\)\s+exitcode\s*: (?P<code>-?\d+)"
)
_RAISED: Final = re.compile(
    r"^(?:\[rank\d+\]: *)?(?:[a-zA-Z_]\w*\.)*(?P<error>\w*(?:Error|Exception|Interrupt)(?:: .*)?)$",
    re.MULTILINE,
)


def ending_of(code: int | None) -> str:
    """How a process with that exit code ended; None: unknown."""
    if code is None:
        return "died"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def exits_in(output: str, first_rank: int = 0) -> dict[int, int]:
    """Exit codes by rank, as torchrun prints them: of the first failure, then of all.

    The first failure is told by its number on its node, whose first rank is `first_rank`.
    """
    every = {int(m["rank"]): int(m["code"]) for m in _EVERY.finditer(output)}
    first = {first_rank + int(m["rank"]): int(m["code"]) for m in _FIRST.finditer(output)}
    return every | first


def errors_in(output: str) -> list[str]:
    """The errors that Python processes printed, with their messages, in order; torchrun's own left out."""
    found = (match["error"].strip() for match in _RAISED.finditer(output))
    return [error for error in found if not error.startswith("ChildFailedError")]
