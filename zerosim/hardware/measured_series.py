"""Measured series of collectives in a calibration document: tables `[[collective]]`, read and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from zerosim.cluster import Measured
from zerosim.collectives import COSTED
from zerosim.errors import ScenarioError, UnknownNameError

MAX_SERIES: Final = 200
MAX_SIZES: Final = 1000
_FIELDS: Final = ("kind", "n_ranks", "n_nodes", "source", "nbytes", "seconds")
_MOST: Final = {"n_ranks": 2**20, "n_nodes": 2**20, "nbytes": 2**50}


def series_from(record: object, where: str) -> tuple[Measured, ...]:
    """The series of a list of tables. Raises ScenarioError, UnknownNameError; `where` names them."""
    if not isinstance(record, list | tuple):
        raise ScenarioError(f"{where} is {str(record)[:40]!r}: give tables [[collective]]")
    if len(record) > MAX_SERIES:
        raise ScenarioError(f"{where} has {len(record)} series: give at most {MAX_SERIES}")
    found = tuple(_one(table, f"{where}[{index}]") for index, table in enumerate(record))
    named = [(series.kind, series.n_ranks, series.n_nodes) for series in found]
    for index, name in enumerate(named):
        if name in named[:index]:
            raise ScenarioError(
                f"{where}[{index}] is {name[0]} over {name[1]} ranks on {name[2]} nodes, as one "
                "before it: keep one"
            )
    return found


def series_to(series: Iterable[Measured]) -> list[dict[str, Any]]:
    """Series as plain values, which `series_from` reads."""
    return [
        {
            "kind": str(one.kind),
            "n_ranks": one.n_ranks,
            "n_nodes": one.n_nodes,
            "source": one.source,
            "nbytes": [nbytes for nbytes, _ in one.times],
            "seconds": [seconds for _, seconds in one.times],
        }
        for one in series
    ]


def _one(table: object, where: str) -> Measured:
    if not isinstance(table, Mapping):
        raise ScenarioError(f"{where} is {str(table)[:40]!r}: give a table")
    for name in table:
        if name not in _FIELDS:
            raise UnknownNameError(f"field of {where}", str(name), _FIELDS)
    for name in _FIELDS:
        if name not in table:
            raise ScenarioError(f"{where} has no {name}: give {', '.join(_FIELDS)}")
    kind, source = table["kind"], table["source"]
    if kind not in COSTED:
        raise UnknownNameError(f"kind of {where}", str(kind)[:40], COSTED)
    if not isinstance(source, str) or not source.strip():
        raise ScenarioError(f"{where}.source is {str(source)[:40]!r}: say who measured it")
    sizes, seconds = _numbers(table, "nbytes", where), _numbers(table, "seconds", where)
    if len(sizes) != len(seconds):
        raise ScenarioError(
            f"{where} has {len(sizes)} nbytes and {len(seconds)} seconds: give one for each"
        )
    return Measured(
        kind=str(kind),
        n_ranks=_whole(table["n_ranks"], "n_ranks", where, 2),
        n_nodes=_whole(table["n_nodes"], "n_nodes", where, 1),
        times=tuple(
            (_whole(size, "nbytes", where, 1), float(took))
            for size, took in zip(sizes, seconds, strict=True)
        ),
        source=source,
    )


def _numbers(table: Mapping[str, Any], name: str, where: str) -> list[float]:
    values = table[name]
    if (
        not isinstance(values, list | tuple)
        or not 1 <= len(values) <= MAX_SIZES
        or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values)
    ):
        raise ScenarioError(f"{where}.{name} is no list of 1 to {MAX_SIZES} numbers: give one")
    return list(values)


def _whole(value: object, name: str, where: str, least: int) -> int:
    most = _MOST[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ScenarioError(f"{where}.{name} is {str(value)[:40]}: give {least} to {most}")
    return value
