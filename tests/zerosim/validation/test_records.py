"""A document: what was written is read again, the same bytes each time, a line a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from zerosim.errors import InputError
from zerosim.validation.records import from_text, to_text


@dataclass(frozen=True)
class Inner:
    name: str
    share: float | None
    pairs: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    facts: Mapping[str, float]
    only: Inner | None = None


RECORD = Outer((Inner("a", 1 / 3, (("x", 1), ("y", 2))), Inner("b", None)), {"one": 2.0})


def test_what_was_written_is_read_again_to_nine_digits() -> None:
    again = from_text(Outer, to_text(RECORD), "it")
    assert again.inner[0].share == 0.333333333
    assert again.inner[0].pairs == (("x", 1), ("y", 2))
    assert again.inner[1] == RECORD.inner[1]
    assert again.only is None
    assert to_text(again) == to_text(RECORD)


def test_a_record_stands_on_a_line_of_its_own() -> None:
    assert to_text(RECORD).splitlines() == [
        "{",
        '"inner": [',
        '{"name":"a","share":0.333333333,"pairs":[["x",1],["y",2]]},',
        '{"name":"b","share":null,"pairs":[]}',
        "],",
        '"facts": {',
        '"one": 2.0',
        "},",
        '"only": null',
        "}",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"inner": 3, "facts": {}}', "{"])
def test_another_document_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match=r"notes\.json is no document of this version"):
        from_text(Outer, text, "notes.json")
