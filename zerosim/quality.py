"""What was odd about the input of a run, and what nobody can know from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_PLACES: Final = 20
"""So many odd places of a file are told."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was odd: the file, the byte of what it unfolds to (null: unknown), and what."""

    source: str
    byte: int | None
    what: str


@dataclass(frozen=True, slots=True)
class Quality:
    """What the maker had to do to the input before it became a trace.

    `lost`: events that a file that ends early had begun to tell of. `places`: where events were
    repaired or left out, the first of each file. `unknown`: what the format itself cannot tell.
    `ranks`: those whose files were read, be it that nothing of theirs became a row.
    """

    events: int = 0
    repaired: int = 0
    skipped: int = 0
    lost: int = 0
    before_window: int = 0
    unsized: int = 0
    warnings: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    unknown: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


SOUND: Final = Quality()
"""Nothing was odd."""
