"""TOML in and out: read as Python does, but for keys that take all memory; written as people do."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

_MAX_PARTS: Final = 50
_LONG_KEY: Final = re.compile(rf"""(?:\.[ \t]*[\w"'-]+[ \t]*){{{_MAX_PARTS}}}""")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError, as tomllib does.

    tomllib keeps every prefix of a dotted key: of one with 100,000 parts, tens of gigabytes.
    """
    found = _LONG_KEY.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"Key of over {_MAX_PARTS} parts (at line {line}, column 1)")
    return tomllib.loads(text)


def write_toml(record: Mapping[str, Any]) -> str:
    """Tables as TOML. What is None is left out; a table of words within another is a line of it.

    Lists of tables, at the top, get a header for each table.
    """
    listed = {k: v for k, v in record.items() if _is_list_of_tables(v)}
    plain = {k: v for k, v in record.items() if not isinstance(v, Mapping) and k not in listed}
    parts = ["\n".join(_lines(plain))] if plain else []
    for name, table in record.items():
        if isinstance(table, Mapping):
            parts += _tables(_key(name), table)
    for name, tables in listed.items():
        parts += ["\n".join([f"[[{_key(name)}]]", *_lines(table)]) for table in tables]
    return "\n\n".join(parts) + "\n"


def _is_list_of_tables(value: object) -> bool:
    tables = isinstance(value, list | tuple) and len(value) > 0
    return tables and all(isinstance(table, Mapping) for table in cast("Sequence[object]", value))


def _tables(header: str, table: Mapping[str, Any]) -> Iterator[str]:
    """The table, then a header each for its own tables, unless they are a few words among others."""
    words = all(isinstance(value, Mapping) for value in table.values()) and bool(table)
    inner = {k: v for k, v in table.items() if isinstance(v, Mapping) and (words or _deep(v))}
    if not words:
        yield "\n".join(
            [f"[{header}]", *_lines({k: v for k, v in table.items() if k not in inner})]
        )
    for name, value in inner.items():
        yield from _tables(f"{header}.{_key(name)}", value)


def _deep(table: Mapping[str, Any]) -> bool:
    return any(isinstance(value, Mapping) for value in table.values())


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        if value is not None:
            yield f"{_key(key)} = {_value(value)}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        inner = ", ".join(_lines(value))
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(v) for v in value)}]"
    if isinstance(value, float):
        return _number(value)
    return str(value)


def _quoted(text: str) -> str:
    # The escapes of JSON are those of TOML, which has one more.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _number(value: float) -> str:
    """The shortest text that is still this float: 3.12e+14, not 312000000000000.0."""
    short = f"{value:g}"
    exact = float(short) == value and any(mark in short for mark in ".en")
    return short if exact and len(short) < len(repr(value)) else repr(value)
