"""The scores that zerosim comes with: predictions beside measurements, and what mechanisms are worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

from zerosim.validation.ablation import Ablated
from zerosim.validation.board import Scoreboard
from zerosim.validation.carried import carried_collectives
from zerosim.validation.carried_memory import carried_memory
from zerosim.validation.collectives import CollectiveScores, collective_scores
from zerosim.validation.memory import MemoryScores, memory_scores
from zerosim.validation.reasons import Reason, carried_reasons, reasons
from zerosim.validation.records import from_text

SCORES: Final = "scoreboard.json"
ABLATIONS: Final = "ablation.json"
_FACTS: Final = files("zerosim.validation").joinpath("facts")


@dataclass(frozen=True, slots=True)
class Published:
    """What was scored, by kind of measurement; `left_out`: why steps are not."""

    steps: Scoreboard
    collectives: CollectiveScores
    memory: MemoryScores
    left_out: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Ablations:
    """Errors with all mechanisms, and without each."""

    ablation: tuple[Ablated, ...]


def scores_of(steps: Scoreboard, *, carried: bool) -> Published:
    """A scoreboard of steps, and beside it those of the collectives and memory that zerosim carries.

    `carried`: the steps are those that zerosim carries, so that what it does not carry is left out.
    """
    return Published(
        steps=replace(steps, left_out=()),
        collectives=collective_scores(carried_collectives().rows),
        memory=memory_scores(carried_memory()),
        left_out=(*reasons(steps.left_out), *(carried_reasons() if carried else ())),
    )


@cache
def published() -> Published:
    """The scores that zerosim comes with, which `make accuracy` makes anew."""
    return from_text(Published, _FACTS.joinpath(SCORES).read_bytes(), SCORES)


@cache
def ablations() -> tuple[Ablated, ...]:
    """The ablation that zerosim comes with, which `make ablation` makes anew; none: nobody made it."""
    path = _FACTS.joinpath(ABLATIONS)
    if not path.is_file():
        return ()
    return from_text(Ablations, path.read_bytes(), ABLATIONS).ablation
