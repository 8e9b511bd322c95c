"""The reduced set: real engines on real and fake ranks do what the plans say, and we would notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim_runtime.equality.families import FAMILIES, family_of, versions_of
from zerosim_runtime.equality.harness import outcomes
from zerosim_runtime.equality.replay import replayed

PAGE = Path(__file__).parents[3] / "docs/equality.md"


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


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_page_of_equality_has_every_family_and_all_its_cases_are_equal(name: str) -> None:
    text = PAGE.read_text()
    section = text[text.index(f"## {name}\n") :].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows
    assert [row for row in rows if not row.endswith("| yes |")] == []
