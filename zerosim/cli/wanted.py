"""What a person types to say which part of a run they want: ranks, steps, a window, kinds."""

from __future__ import annotations

import re
from typing import Final

from zerosim.errors import InputError, UnknownNameError
from zerosim.kinds import KINDS, Kind
from zerosim.units import NS_PER_S, read_delay

_RANKS: Final = re.compile(r"(\d{1,8})(?:-(\d{1,8}))?")
_STEPS: Final = re.compile(r"(\d{1,9})(?::(\d{1,9}))?")
_MAX_RANKS: Final = 2**20


def ranks_of(text: str | None) -> frozenset[int] | None:
    """`0-3,7` as ranks. Raises InputError."""
    if text is None:
        return None
    ranks: set[int] = set()
    for part in text.split(","):
        match = _RANKS.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first > _MAX_RANKS:
            raise InputError(f"--ranks '{text}' names no ranks: give 0-3,7 or the like")
        ranks.update(range(first, last + 1))
    return frozenset(ranks)


def steps_of(text: str | None) -> tuple[int, int] | None:
    """`5:8` or `5` as first and last step. Raises InputError."""
    if text is None:
        return None
    match = _STEPS.fullmatch(text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last:
        raise InputError(f"--steps '{text}' names no steps: give FIRST:LAST, 5:8 or the like")
    return first, last


def window_of(text: str | None) -> tuple[int | None, int | None] | None:
    """`10ms:1.5s` as nanoseconds from the start of the run; either end may be open. Raises InputError."""
    if text is None:
        return None
    begin, colon, end = text.partition(":")
    low, high = _moment(begin, "begin"), _moment(end, "end")
    if not colon or (low is None and high is None) or (high is not None and (low or 0) > high):
        raise InputError(f"--window '{text}' is no stretch of time: give 10ms:1.5s, 10ms: or :1.5s")
    return low, high


def kinds_of(text: str | None) -> frozenset[Kind] | None:
    """`all_gather,other` as kinds. Raises UnknownNameError."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in KINDS:
            raise UnknownNameError("kind", name, KINDS)
    return frozenset(Kind(name) for name in names)


def _moment(text: str, what: str) -> int | None:
    stripped = text.strip()
    return round(read_delay(stripped, f"--window {what}") * NS_PER_S) if stripped else None
