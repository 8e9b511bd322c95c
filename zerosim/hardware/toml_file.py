"""A TOML file of the user's and its tables: refused in a sentence if they are none, or much too large."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zerosim.errors import ScenarioError
from zerosim.toml_text import read_toml

MAX_BYTES: Final = 2**20
"""A machine or a calibration takes some kilobytes; Python reads a megabyte of TOML in a second."""


def read_tables(path: Path, what: str) -> dict[str, Any]:
    """The tables of the file, `what` (a machine, a calibration) it should hold. Raises ScenarioError."""
    try:
        if not path.is_file():
            raise ScenarioError(f"no file '{path}' with a {what}: check the path")
        if path.stat().st_size > MAX_BYTES:
            raise ScenarioError(f"'{path}' is over {MAX_BYTES} bytes, so no {what}")
        return read_toml(path.read_bytes().decode())
    except OSError as error:
        reason = error.strerror or error
        raise ScenarioError(f"cannot read '{path}': {reason}; check the path") from None
    except (ValueError, RecursionError) as error:  # what the parser and the decoder raise
        raise ScenarioError(f"cannot read {what} '{path}' ({error}): mend the file") from None


def table_in(record: object, where: str) -> dict[str, Any]:
    """A table of a document, its names as text. Raises ScenarioError for what is none."""
    if not isinstance(record, Mapping):
        raise ScenarioError(f"{where} is {record!r}: give a table")
    return {str(name): value for name, value in record.items()}
