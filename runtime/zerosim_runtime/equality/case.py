"""A case: one setting of one engine, and the scenario that should come to the same collectives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from zerosim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Case:
    """`scenario` is what a scenario file holds, but for the name and the ranks.

    `fake`: the ranks are of torch's fake backend, in one process. `extra`: what only the family's
    `observe` reads. `reduced`: also part of the short set that the tests run.
    """

    name: str
    family: str
    world_size: int
    scenario: dict[str, Any]
    fake: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    reduced: bool = False

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are watched: all real ones, the first and the last of fake ones."""
        return (0, self.world_size - 1) if self.fake else tuple(range(self.world_size))


def scenario_of(case: Case) -> Scenario:
    """The scenario of a case. Raises InputError for one that is none."""
    cluster = {"name": "classroom"} | case.scenario.get("cluster", {})
    return Scenario.from_dict(
        {"name": case.name} | case.scenario | {"cluster": cluster | {"world_size": case.world_size}}
    )
