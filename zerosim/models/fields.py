"""Fields of a record that nobody vouches for: tables, lists, text and whole numbers, or one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zerosim.errors import ScenarioError

MAX_ENTRIES: Final = 100_000
"""As many layers as a scenario may have."""
MAX_NUMBER: Final = 2**58
"""FLOPs and elements up to here, times the bytes of one, fit 64 bits."""
_MAX_TEXT: Final = 500


def names_of(entry: object, place: str) -> list[str]:
    """The names an entry stands for, at least one. Raises ScenarioError."""
    names = list_of(table_of(entry, place), "names", place)
    if not 1 <= len(names) <= MAX_ENTRIES:
        raise ScenarioError(f"{place} has {len(names)} names: give 1 to {MAX_ENTRIES}")
    return [_checked(name, f"{place}.names") for name in names]


def table_of(value: object, place: str) -> Mapping[str, Any]:
    """A table, as it is. Raises ScenarioError."""
    if not isinstance(value, Mapping):
        raise ScenarioError(f"{place} is {shown(value)}: give a table")
    return value


def list_of(record: object, name: str, place: str) -> list[Any]:
    """The list `name` of a table. Raises ScenarioError."""
    value = table_of(record, place).get(name)
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        raise ScenarioError(
            f"{place}.{name} is {shown(value)}: give a list, not over {MAX_ENTRIES}"
        )
    return value


def text_of(record: Mapping[str, Any], name: str, place: str) -> str:
    """The text `name` of a table, not empty. Raises ScenarioError."""
    return _checked(record.get(name), f"{place}.{name}")


def _checked(value: object, place: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT:
        raise ScenarioError(f"{place} is {shown(value)}: give some text")
    return value


def whole_of(record: object, name: str, place: str, least: int = 0) -> int:
    """The whole number `name` of a table, not below `least`. Raises ScenarioError."""
    value = table_of(record, place).get(name)
    if type(value) is not int or not least <= value < MAX_NUMBER:
        raise ScenarioError(f"{place}.{name} is {shown(value)}: give a whole number from {least}")
    return value


def shown(value: object) -> str:
    """The start of a value, for a sentence."""
    return f"{value!r}"[:60]
