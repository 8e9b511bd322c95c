"""Records as a JSON document and back: one record a line, numbers to nine digits, the same bytes everywhere."""

from __future__ import annotations

import itertools
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import orjson

from zerosim.errors import InputError

DIGITS: Final = 9
"""Of every number; beyond them, a sum depends on the machine that added it up."""
_OPEN: Final = 3
"""So many levels of a document stand on lines of their own."""
R = TypeVar("R")


def to_text(record: object) -> str:
    """A frozen record as a JSON document."""
    return _written(plain(record), 0) + "\n"


def plain(value: object) -> Any:  # noqa: ANN401 - what JSON has
    """A record as dictionaries, lists and scalars, its numbers to nine digits."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return value


def _written(value: Any, depth: int) -> str:  # noqa: ANN401 - what JSON has
    if depth < _OPEN and isinstance(value, dict) and value:
        inside = (f"{_compact(key)}: {_written(item, depth + 1)}" for key, item in value.items())
        return "{\n" + ",\n".join(inside) + "\n}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(map(_compact, value)) + "\n]"
    return _compact(value)


def _compact(value: Any) -> str:  # noqa: ANN401 - what JSON has
    return orjson.dumps(value).decode()


def from_text(kind: type[R], text: str | bytes, name: str) -> R:
    """The record of a document that `to_text` wrote. Raises InputError, which calls it `name`."""
    try:
        found: R = _read(kind, orjson.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{name} is no document of this version ({error}): make it again with "
            "`zerosim validate --publish FILE`"
        ) from None
    return found


def _read(hint: Any, value: Any) -> Any:  # noqa: ANN401 - any annotation, any value
    origin, inside = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        hints, make = get_type_hints(hint), cast("Any", hint)
        return make(**{f.name: _read(hints[f.name], value[f.name]) for f in fields(hint)})
    if origin in (Union, types.UnionType):
        return None if value is None else _read(inside[0], value)
    if origin is tuple:
        every = itertools.repeat(inside[0]) if inside[-1] is Ellipsis else inside
        return tuple(_read(h, item) for h, item in zip(every, value, strict=False))
    if origin in (dict, Mapping):
        return {key: _read(inside[1], item) for key, item in value.items()}
    return float(value) if hint is float else value
