"""TOML: read as Python does, but for keys that would take all memory."""

from __future__ import annotations

import pytest

from zerosim.scenario.toml_text import read_toml


def test_tables_are_those_of_tomllib() -> None:
    assert read_toml("a.b = 1\n[c]\nd = [0.1, 0.2]\n") == {"a": {"b": 1}, "c": {"d": [0.1, 0.2]}}


def test_many_numbers_are_no_key() -> None:
    assert len(read_toml(f"a = [{'0.5, ' * 100}]")["a"]) == 100


@pytest.mark.parametrize("text", ["{} = 1", "[{}]", "x = {{ {} = 1 }}"])
def test_a_key_of_very_many_parts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Key of over 50 parts \(at line 2, column 1\)$"):
        read_toml("# first\n" + text.format(".".join("a" * 1000)))
