"""Registries: names to things, with a helpful answer to a wrong name."""

from __future__ import annotations

import pytest

from zerosim.errors import UnknownNameError
from zerosim.registry import Registry

FRUIT = Registry("fruit", {"apple": 1, "pear": 2})


def test_a_known_name_is_found() -> None:
    assert FRUIT["pear"] == 2
    assert "pear" in FRUIT


def test_names_come_in_the_order_in_which_they_were_written() -> None:
    assert list(FRUIT) == ["apple", "pear"]


def test_an_unknown_name_says_what_it_was_looked_up_in() -> None:
    with pytest.raises(UnknownNameError, match="no fruit 'appel': did you mean 'apple'"):
        FRUIT["appel"]
