"""What a page shows, as a query string and back: total, so that any address opens something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl, urlencode

Tab = Literal["selection", "balance", "memory", "communication", "buckets", "operations", "run"]
Align = Literal["step", "F0", "op"]
Scale = Literal["abs", "norm"]
View = Literal["step", "memory", "balance", "buckets"]
Shown = Literal["steady", "first", "all"]
Scores = Literal["steps", "scaling", "collectives", "memory", "mechanisms", "left"]
By = Literal["source", "gpu", "size", "GPUs"]

MAX_TEXT: Final = 2_000
"""Addresses beyond that are cut by proxies and browsers."""
MAX_INT: Final = 2**53
S = TypeVar("S", bound="LearnState | SimulateState | ExploreState | CompareState | AccuracyState")


@dataclass(frozen=True, slots=True)
class LearnState:
    """`/learn/<lesson>`: the step shown, 0 before the first op."""

    step: int = 0


@dataclass(frozen=True, slots=True)
class SimulateState:
    """`/simulate`: a preset, `--set` words separated by blanks, the open view, and of which steps."""

    preset: str | None = None
    set: str | None = None
    view: View = "step"
    shown: Shown = "steady"


@dataclass(frozen=True, slots=True)
class ExploreState:
    """`/explore`: the run, the window in ns since the run's start, the selected span, the open tab.

    The timeline writes `t0`, `t1`, `sel` and `ranks` itself (assets/26_zs_address.mjs).
    """

    run: str | None = None
    t0: int | None = None
    t1: int | None = None
    sel: str | None = None
    ranks: str | None = None
    tab: Tab = "selection"


@dataclass(frozen=True, slots=True)
class CompareState:
    """`/compare`: two runs, how they are laid over each other, and the window shown."""

    a: str | None = None
    b: str | None = None
    align: Align = "step"
    scale: Scale = "abs"
    t0: int | None = None
    t1: int | None = None
    sel: str | None = None
    ranks: str | None = None


@dataclass(frozen=True, slots=True)
class AccuracyState:
    """`/accuracy`: what is shown, of which rows, by which fact, and which series of collectives.

    A filter that is None leaves everything in.
    """

    view: Scores = "steps"
    suite: str = "test"
    split: str | None = None
    source: str | None = None
    gpu: str | None = None
    by: By = "source"
    series: str | None = None


State = LearnState | SimulateState | ExploreState | CompareState | AccuracyState


def encode(state: State) -> str:
    """The query string of a state, without `?`; what equals its default is left out."""
    pairs = [
        (field.name, str(value))
        for field in fields(state)
        if (value := getattr(state, field.name)) != field.default
    ]
    return urlencode(pairs)


def decode(kind: type[S], query: str | Mapping[str, Any]) -> S:
    """The state in a query string (with or without `?`) or in a page's arguments.

    Never fails: what is unknown, malformed or out of range becomes the default.
    """
    given = dict(parse_qsl(query.lstrip("?"))) if isinstance(query, str) else dict(query)
    hints = get_type_hints(kind)
    values = {
        field.name: _read(given.get(field.name), hints[field.name], field.default)
        for field in fields(kind)
    }
    return kind(**values)


def address(path: str, state: State) -> str:
    """`path` with the state's query string, e.g. `/explore?run=lesson-zero3`."""
    query = encode(state)
    return f"{path}?{query}" if query else path


def _read(text: object, hint: Any, default: Any) -> Any:  # noqa: ANN401 - any field's type
    if not isinstance(text, str) or not text or len(text) > MAX_TEXT:
        return default
    if get_origin(hint) is Literal:
        return text if text in get_args(hint) else default
    if hint in (int, int | None):
        return _integer(text, default)
    return text if text.isprintable() else default


def _integer(text: str, default: int | None) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return default
    return value if abs(value) <= MAX_INT else default
