"""What is wanted of the files of a run: how much damage to bear, and which part to load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.kinds import Kind


@dataclass(frozen=True, slots=True)
class Choice:
    """How files are to be read. None: all of it.

    `strict`: refuse what had to be repaired or left out. `salvage`: of a file that ends early keep the
    whole events, and count those that are lost. `rank`: whose file it is, where one is given that does
    not say so itself. `ranks`, `kinds`: only these. `steps`: from the first to the last of these two.
    `window`: only what touches these ns, counted from the first span of the run (either end may be open).
    `align`: move the clocks of the ranks together, as far as the ends of their collectives say.
    """

    strict: bool = False
    salvage: bool = False
    rank: int | None = None
    ranks: frozenset[int] | None = None
    steps: tuple[int, int] | None = None
    window: tuple[int | None, int | None] | None = None
    kinds: frozenset[Kind] | None = None
    align: bool = False


ALL: Final = Choice()
