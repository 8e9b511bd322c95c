"""Rows of a CSV, a user's or one that zerosim carries: cells as text and numbers, bad ones named."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from zerosim.errors import MeasurementError

MAX_CSV_BYTES: Final = 64 * 2**20
"""A hundred times the largest table of measurements there is."""
_MAX_CELL: Final = 2**53
"""Larger whole numbers are not exact in the floats that spreadsheets write."""
_SHOWN: Final = 40
_GROUPED: Final = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
"""A comma stands between thousands; as a decimal sign it would be read a thousandfold."""


@dataclass(frozen=True, slots=True)
class Default:
    """A blank cell and what stands for it, with the reason."""

    column: str
    value: str
    why: str

    @property
    def told(self) -> tuple[str, str, str]:
        """As a score keeps it."""
        return self.column, self.value, self.why


@dataclass(frozen=True, slots=True)
class Cells:
    """One row: `row_id` for people, and the text of each column that is filled."""

    row_id: str
    filled: Mapping[str, str]

    def text(self, column: str) -> str | None:
        """The text of a cell; None if it is blank or the file has no such column."""
        return self.filled.get(column)

    def number(self, column: str) -> float | None:
        """A finite number; None if blank. Raises MeasurementError for anything else."""
        text = self.filled.get(column)
        if text is None:
            return None
        try:
            number = float(text.replace(",", "") if _GROUPED.fullmatch(text) else text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.bad(column, "give a finite number")
        return number

    def positive(self, column: str, most: float = math.inf) -> float | None:
        """A number above 0, at most `most`; None if blank. Raises MeasurementError."""
        number = self.number(column)
        if number is not None and not 0 < number <= most:
            at_most = "" if most == math.inf else f", at most {most:g}"
            raise self.bad(column, f"give a number above 0{at_most}")
        return number

    def whole(self, column: str, least: int = 1, most: int = _MAX_CELL) -> int | None:
        """A whole number from `least` to `most`; None if blank. Raises MeasurementError."""
        number = self.number(column)
        if number is None:
            return None
        if number != int(number) or not least <= number <= most:
            range_ = f"{least} or more" if most == _MAX_CELL else f"{least} to {most}"
            raise self.bad(column, f"give a whole number, {range_}")
        return int(number)

    def needed(self, column: str) -> int:
        """A whole number that there must be. Raises MeasurementError if it is blank."""
        found = self.whole(column)
        if found is None:
            raise MeasurementError(f"row {self.row_id}: {column} is blank: give a whole number")
        return found

    def bad(self, column: str, remedy: str) -> MeasurementError:
        """The sentence about a cell that cannot be used."""
        shown = short(self.filled.get(column, ""))
        return MeasurementError(f"row {self.row_id}: {column} is '{shown}': {remedy}")

    def refused(self, why: str) -> MeasurementError:
        """The sentence that leaves the row out."""
        return MeasurementError(f"row {self.row_id}: {why}")


def short(text: str) -> str:
    """As much of a text as a sentence has room for."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read_cells(path: Path, *, columns: Iterable[str] = ()) -> tuple[Cells, ...]:
    """All rows of a CSV file with a header. Blank cells are left out, rows without id are numbered.

    Raises MeasurementError for a file that cannot be read, lacks one of `columns`, or has no row.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise MeasurementError(f"'{path}' is not a file: give a CSV of rows")
        if path.stat().st_size > MAX_CSV_BYTES:
            raise MeasurementError(f"'{path}' is over {MAX_CSV_BYTES} bytes: give a CSV of rows")
        with path.open(newline="", encoding="utf-8-sig") as lines:
            return _cells(lines, str(path), columns)
    except OSError as error:
        reason = error.strerror or error
        raise MeasurementError(f"cannot read '{path}': {reason}; check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise MeasurementError(f"'{path}' is no CSV in UTF-8 ({error}): mend the file") from None


def fact_rows(name: str) -> Iterator[dict[str, str]]:
    """The rows of `name`, a CSV of facts/ that zerosim carries: the text of each column."""
    text = files("zerosim.validation").joinpath("facts", name).read_text("utf-8")
    return iter(csv.DictReader(io.StringIO(text, newline="")))


def _cells(lines: Iterable[str], source: str, columns: Iterable[str]) -> tuple[Cells, ...]:
    reader = csv.reader(lines)
    header = [name.strip() for name in next(reader, [])]
    for column in columns:
        if column not in header:
            raise MeasurementError(
                f"'{source}' has no column '{column}': its first line must name the columns"
            )
    repeated = {name for name in header if name and header.count(name) > 1}
    if repeated:
        raise MeasurementError(f"'{source}' has the column '{min(repeated)}' twice: keep one")
    found = tuple(_numbered(header, reader))
    if not found:
        raise MeasurementError(f"'{source}' has no row below its header: give one at least")
    return found


def _numbered(header: list[str], reader: Iterator[list[str]]) -> Iterator[Cells]:
    seen: set[str] = set()
    for line, values in enumerate(reader, start=2):
        filled = {
            name: text.strip()
            for name, text in zip(header, values, strict=False)
            if name and text.strip()
        }
        if not filled:
            continue
        row_id = short(filled.get("row_id", f"line {line}"))
        if row_id in seen:
            row_id = f"{row_id} (line {line})"
        seen.add(row_id)
        yield Cells(row_id, filled)
