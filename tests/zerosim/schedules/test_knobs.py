"""Knobs say what they are: default, unit, sentence; aliases reach the same option."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.properties.scenarios import EVERY_SCHEDULE
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knob, knobs


@dataclass(frozen=True)
class _Options:
    size: int | bool | None = knob(None, "how large", "bytes", alias="s", tries=(1,))
    mode: str = knob("a", "which way", choices=("a", "b"))


def test_a_knob_knows_its_default_unit_types_and_other_name() -> None:
    size, mode = knobs(_Options)
    assert (size.name, size.default, size.unit, size.alias) == ("size", None, "bytes", "s")
    assert size.kinds == (int, bool)
    assert mode.choices == ("a", "b")
    assert mode.kinds == (str,)


@EVERY_SCHEDULE
def test_every_knob_of_every_schedule_says_what_it_does(schedule: str) -> None:
    for found in knobs(SCHEDULES[schedule].options):
        assert len(found.says.split()) > 1, found.name
        assert bool in found.kinds or found.choices or found.tries, (
            f"{found.name} has no values to try"
        )


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_the_options_of_every_schedule_have_defaults(schedule: str) -> None:
    options = SCHEDULES[schedule].options
    assert all(getattr(options(), k.name) == k.default for k in knobs(options))
