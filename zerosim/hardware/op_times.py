"""What single ops take on a machine: tables `[[op]]` of a calibration document, read and written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from zerosim.cluster import OpTime
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.kinds import Kind

MAX_OPS: Final = 10_000
_MAX_S: Final = 1000.0
_FIELDS: Final = ("kind", "unit", "seconds", "source")
_KINDS: Final = (
    *(Kind.FORWARD, Kind.BACKWARD, Kind.OTHER, Kind.FILL, Kind.COPY, Kind.OPTIMIZER),
    Kind.ALL_GATHER,
)
"""Of an all-gather: what it takes to put the arrived rows in place."""


def op_times_from(record: object, where: str) -> tuple[OpTime, ...]:
    """The times of a list of tables. Raises ScenarioError, UnknownNameError; `where` names them."""
    if not isinstance(record, list | tuple):
        raise ScenarioError(f"{where} is {str(record)[:40]!r}: give tables [[op]]")
    if len(record) > MAX_OPS:
        raise ScenarioError(f"{where} has {len(record)} ops: give at most {MAX_OPS}")
    found = tuple(_one(table, f"{where}[{index}]") for index, table in enumerate(record))
    if len({(op.kind, op.unit) for op in found}) < len(found):
        raise ScenarioError(f"{where} has two ops of one kind and unit: keep one")
    return found


def op_times_to(ops: Iterable[OpTime]) -> list[dict[str, Any]]:
    """Times as plain values, which `op_times_from` reads."""
    return [
        {"kind": str(op.kind), "unit": op.unit, "seconds": op.seconds, "source": op.source}
        for op in ops
    ]


def _one(table: object, where: str) -> OpTime:
    if not isinstance(table, Mapping):
        raise ScenarioError(f"{where} is {str(table)[:40]!r}: give a table")
    for name in table:
        if name not in _FIELDS:
            raise UnknownNameError(f"field of {where}", str(name), _FIELDS)
    for name in _FIELDS:
        if name not in table:
            raise ScenarioError(f"{where} has no {name}: give {', '.join(_FIELDS)}")
    kind, unit, seconds, source = (table[name] for name in _FIELDS)
    if kind not in _KINDS:
        raise UnknownNameError(f"kind of {where}", str(kind)[:40], [str(k) for k in _KINDS])
    if not isinstance(unit, str) or not isinstance(source, str) or not source.strip():
        raise ScenarioError(f"{where} has unit {unit!r} and source {source!r}: give text for both")
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not math.isfinite(seconds) or not 0 <= seconds <= _MAX_S:
        raise ScenarioError(f"{where}.seconds is {str(seconds)[:40]}: give 0 to {_MAX_S:g}")
    return OpTime(str(kind), unit, float(seconds), source)
