"""Knobs: options of a schedule under the engine's own names, with what they mean and in which unit."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

_SAYS: Final = "says"


@dataclass(frozen=True, slots=True)
class Knob:
    """One option. `kinds` are the types it takes, `choices` its only values (empty: any).

    `tries` are values worth trying, far from the default too: the tests draw from them. `alias` is
    another name that the engine itself accepts; `none` is what the engine's own None means, where
    that is not the default. `hides`: it decides how much of the communication computing can hide.
    """

    name: str
    default: Any
    kinds: tuple[type, ...]
    says: str
    unit: str
    choices: tuple[Any, ...]
    tries: tuple[Any, ...]
    alias: str | None
    none: Any
    hides: bool


def knob(
    default: Any,  # noqa: ANN401 - whatever the option is
    says: str,
    unit: str = "",
    *,
    alias: str | None = None,
    choices: tuple[Any, ...] = (),
    tries: tuple[Any, ...] = (),
    none: Any = None,  # noqa: ANN401 - as the default
    hides: bool = False,
) -> Any:  # noqa: ANN401 - a dataclass field, typed as its default
    """The field of an option record: its default, one sentence, its unit; see Knob."""
    about = {_SAYS: says, "unit": unit, "alias": alias, "choices": choices, "tries": tries}
    return field(default=default, metadata=about | {"none": none, "hides": hides})


def knobs(options: type[Any]) -> tuple[Knob, ...]:
    """The knobs of an option record, in the order of its fields."""
    hints = get_type_hints(options)
    return tuple(
        Knob(
            name=f.name,
            default=f.default,
            kinds=_kinds(hints[f.name]),
            says=f.metadata[_SAYS],
            unit=f.metadata["unit"],
            choices=f.metadata["choices"],
            tries=f.metadata["tries"],
            alias=f.metadata["alias"],
            none=f.metadata["none"],
            hides=f.metadata["hides"],
        )
        for f in fields(options)
    )


def _kinds(hint: Any) -> tuple[type, ...]:  # noqa: ANN401 - types are data here
    inner = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return tuple(kind for kind in inner if kind is not type(None))
