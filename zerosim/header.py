"""The header of a run, `run.json`: `Meta` as plain JSON and back, trusting nothing in it."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from types import UnionType
from typing import Any, Final, Literal, cast, get_args, get_origin, get_type_hints

from zerosim.errors import TraceFileError
from zerosim.quality import Quality
from zerosim.trace import Clock, Meta

_LATER: Final[dict[Any, set[str]]] = {
    Meta: {"steady_from"},
    Quality: {"places", "unknown", "ranks"},
    Clock: {"corrected"},
}
"""Fields that runs of the same format written earlier lack; they have their defaults then."""


def meta_to_dict(meta: Meta) -> dict[str, Any]:
    """`meta` as JSON-ready dictionaries and lists (the content of `run.json`)."""
    return asdict(meta)


def meta_from_dict(record: dict[str, Any]) -> Meta:
    """The inverse of `meta_to_dict`. Raises TraceFileError on missing, unknown or ill-typed fields."""
    meta: Meta = _decoded(Meta, record, "run")
    backwards = next((w for w in meta.steps if w.end_ns < w.start_ns), None)
    if backwards is not None:
        raise TraceFileError(
            f"step {backwards.step} of rank {backwards.rank} ends before it starts"
        )
    if meta.world_size is not None and meta.world_size < 1:
        raise TraceFileError(f"the world size is {meta.world_size}: it is at least 1, or null")
    return meta


def _decoded(hint: Any, value: Any, place: str) -> Any:  # noqa: ANN401 - types are data here
    """Parsed JSON as what `hint` says, down to the last number: a run may be anyone's."""
    origin, inner = get_origin(hint), get_args(hint)
    also = int if hint is float else hint
    if origin is UnionType:
        return None if value is None else _decoded(inner[0], value, place)
    if is_dataclass(hint) and isinstance(value, dict):
        hints = get_type_hints(hint)
        if value.keys() | _LATER.get(hint, set()) == hints.keys():
            decoded = {k: _decoded(hints[k], v, f"{place}.{k}") for k, v in value.items()}
            return cast("type[Any]", hint)(**decoded)
    elif origin is tuple and isinstance(value, list):
        inner = inner[:1] * len(value) if inner[-1] is ... else inner
        if len(inner) == len(value):
            return tuple(_decoded(h, v, place) for h, v in zip(inner, value, strict=True))
    elif (origin is Literal and value in inner) or type(value) in (origin or hint, also):
        return value
    raise TraceFileError(f"run.json does not describe a run ({place} is {str(value)[:60]!r})")
