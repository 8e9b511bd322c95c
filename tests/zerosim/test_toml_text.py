"""TOML: read as Python does, but for keys that would take all memory; written so that it reads back."""

from __future__ import annotations

import pytest

from zerosim.toml_text import read_toml, write_toml


def test_tables_are_those_of_tomllib() -> None:
    assert read_toml("a.b = 1\n[c]\nd = [0.1, 0.2]\n") == {"a": {"b": 1}, "c": {"d": [0.1, 0.2]}}


def test_many_numbers_are_no_key() -> None:
    assert len(read_toml(f"a = [{'0.5, ' * 100}]")["a"]) == 100


@pytest.mark.parametrize("text", ["{} = 1", "[{}]", "x = {{ {} = 1 }}"])
def test_a_key_of_very_many_parts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Key of over 50 parts \(at line 2, column 1\)$"):
        read_toml("# first\n" + text.format(".".join("a" * 1000)))


def test_text_in_toml_is_escaped() -> None:
    record = {"name": 'a "b"\\c\nd\t\x00\x7f', "run": {"list": [1, 2.5, True], "none": None}}
    assert read_toml(write_toml(record)) == {
        "name": 'a "b"\\c\nd\t\x00\x7f',
        "run": {"list": [1, 2.5, True]},
    }


def test_tables_of_tables_have_headers_and_others_a_line() -> None:
    record = {
        "name": "mine",
        "device": {"A 1": {"efficiency": 0.5}, "b": {"efficiency": 1.0}},
        "peak": {"rates": {"float32": 3.12e14}, "sms": 3},
    }
    assert (
        write_toml(record)
        == """name = "mine"

[device."A 1"]
efficiency = 0.5

[device.b]
efficiency = 1.0

[peak]
rates = { float32 = 3.12e+14 }
sms = 3
"""
    )
    assert read_toml(write_toml(record)) == record


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e300, 5e-6, 123456789.0, 1.0, -0.0])
def test_numbers_are_short_and_stay_what_they_are(value: float) -> None:
    assert repr(read_toml(write_toml({"x": value}))["x"]) == repr(value)
