"""The reduced set: real engines on real and fake ranks do what the plans say, and we would notice."""

from __future__ import annotations

import pytest

from zerosim_runtime.equality.families import FAMILIES, family_of, versions_of
from zerosim_runtime.equality.harness import outcomes
from zerosim_runtime.equality.replay import replayed


def silent(_: str) -> None:
    """Nobody watches."""


@pytest.mark.runtime
@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_collective_of_the_reduced_set_is_equal(name: str) -> None:
    family = family_of(name)
    if family.replay is not None:
        _, found = replayed(family.replay, family.cases)
        assert found
        assert [o.difference for o in found if o.difference is not None] == []
        return
    missing = [need for need, version in versions_of(family).items() if version is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    found = outcomes([case for case in family.cases if case.reduced], silent)
    assert found
    assert [o.difference for o in found if o.difference is not None] == []


@pytest.mark.parametrize("name", list(FAMILIES))
def test_cases_of_a_family_have_names_of_their_own(name: str) -> None:
    names = [case.name for case in family_of(name).cases]
    assert len(names) == len(set(names))
