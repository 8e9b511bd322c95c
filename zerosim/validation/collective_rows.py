"""Rows of measured collectives: a table (CSV) of series, each one machine measured by one tool."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.errors import MeasurementError
from zerosim.validation.cells import short
from zerosim.validation.measured import KINDS, MAX_ROWS, Timing, checked, read_text, torch_dtype
from zerosim.validation.nccl_tests import number

NEEDED: Final = ("collective", "ranks", "bytes", "time_us")
"""Columns without which there is nothing to score; the others may be blank."""
_MAX_CELL: Final = 4096
_MOST_GBPS: Final = 1e6
"""Ten times what the network cards of a rack carry."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measured collective and where it is from. Blank text: the source does not say.

    `series`: the run it belongs to; `split`: calib (constants may be fitted on it), test, extra or
    exclude; `algo`: what the tool says NCCL chose, or was made to choose.
    """

    row_id: str
    series: str
    timing: Timing
    split: str = ""
    source: str = ""
    hardware: str = ""
    gpu: str = ""
    intra_link: str = ""
    inter_link: str = ""
    inter_gbps: float | None = None
    algo: str = ""
    tool: str = ""
    nccl: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a table holds: its rows, and those left out, each (row, series, why)."""

    rows: tuple[Row, ...]
    left_out: tuple[tuple[str, str, str], ...] = ()


def read_rows(path: Path) -> Rows:
    """The rows of a CSV with the columns of docs/calibration.md. Raises MeasurementError."""
    return rows_from(path.name, read_text(path), refuse=False)


def rows_from(name: str, text: str, *, refuse: bool = True) -> Rows:
    """The rows of a CSV text, which `name` stands for in errors. Raises MeasurementError.

    A row with a blank in one of NEEDED is left out; one that cannot be true is refused, or left out
    too, with the reason.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", restval="", strict=True)
    try:
        missing = [column for column in NEEDED if column not in (reader.fieldnames or ())]
        if missing:
            raise MeasurementError(
                f"{name} has no column '{missing[0]}': give {', '.join(NEEDED)} at least"
            )
        rows, left_out = list[Row](), list[tuple[str, str, str]]()
        for cells in reader:
            place = f"{name} line {reader.line_num}"
            found = _read(cells, place, refuse=refuse)
            if isinstance(found, Row):
                rows.append(found)
            else:
                named = (cells.get("row_id", "") or place, cells.get("series_id", ""))
                left_out.append((short(named[0]), short(named[1]), found))
            if len(rows) > MAX_ROWS:
                raise MeasurementError(f"{name} has more than {MAX_ROWS} rows: give a part of it")
    except csv.Error as error:
        raise MeasurementError(f"{name} line {reader.line_num} is no CSV: {error}") from None
    if not rows and refuse:
        raise MeasurementError(f"{name} has no row with {', '.join(NEEDED)}: fill them in")
    return Rows(tuple(rows), tuple(left_out))


def _read(cells: Mapping[str, str], place: str, *, refuse: bool) -> Row | str:
    """A row, or why it is left out. Raises MeasurementError for an untrue one, if told to `refuse`."""
    blank = next((column for column in NEEDED if not cells[column]), None)
    if blank is not None:
        return f"{blank} is blank: fill it in, or leave the row out"
    try:
        return _row(cells, place)
    except MeasurementError as error:
        if refuse:
            raise
        return str(error).removeprefix(f"{place}: ")


def _row(cells: Mapping[str, str], place: str) -> Row:
    for column, text in cells.items():
        if column == "" or len(text) > _MAX_CELL:
            raise MeasurementError(
                f"{place} has more cells than columns, or one over {_MAX_CELL} characters: mend it"
            )
    kinds = {str(kind): kind for kind in KINDS}
    kind = kinds.get(cells["collective"])
    if kind is None:
        raise MeasurementError(
            f"{place}: collective is '{cells['collective'][:40]}': give one of {', '.join(kinds)}"
        )
    placed = {"out-of-place": False, "in-place": True}.get(cells.get("placement", ""))
    n_ranks = _whole(cells, "ranks", place)
    timing = Timing(
        kind=kind,
        n_ranks=0 if n_ranks is None else n_ranks,
        n_nodes=_whole(cells, "nodes", place),
        nbytes=_whole(cells, "bytes", place) or 0,
        seconds=number(cells["time_us"], f"{place}: time_us") / 1e6,
        dtype=torch_dtype(cells.get("dtype", "")),
        in_place=placed,
    )
    return Row(
        row_id=cells.get("row_id", "") or place,
        series=cells.get("series_id", ""),
        timing=checked(timing, place),
        split=cells.get("split", ""),
        source=cells.get("source", ""),
        hardware=cells.get("hardware", ""),
        gpu=cells.get("gpu", ""),
        intra_link=cells.get("intra_link", ""),
        inter_link=cells.get("inter_link", ""),
        inter_gbps=_gbps(cells, place),
        algo=cells.get("algo", ""),
        tool=cells.get("tool", ""),
        nccl=cells.get("nccl_version", ""),
        notes=cells.get("notes", ""),
    )


def _gbps(cells: Mapping[str, str], place: str) -> float | None:
    column = "inter_gbps_per_node_stated"
    text = cells.get(column, "")
    if not text:
        return None
    value = number(text, f"{place}: {column}")
    if not 0 < value <= _MOST_GBPS:
        raise MeasurementError(
            f"{place}: {column} is {text[:40]}: give a number above 0, at most {_MOST_GBPS:g}"
        )
    return value


def _whole(cells: Mapping[str, str], column: str, place: str) -> int | None:
    text = cells.get(column, "")
    if not text:
        return None
    value = number(text, f"{place}: {column}")
    if not value.is_integer() or not 0 < value < 2**53:
        raise MeasurementError(f"{place}: {column} is {text[:40]}: give a whole number above 0")
    return int(value)
