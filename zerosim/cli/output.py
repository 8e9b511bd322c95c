"""What every command does with its answer: one JSON object, or text for people, on stdout."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

import orjson

MAX_SENTENCE: Final = 800
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def print_json(record: Mapping[str, Any]) -> None:
    """Write one JSON object to stdout: ns, bytes, FLOPs; null is unknown."""
    try:
        line = orjson.dumps(record)
    except orjson.JSONEncodeError:  # names of files need not be text
        line = json.dumps(record, ensure_ascii=False).encode(errors="replace")
    sys.stdout.write(line.decode() + "\n")


def print_rows(rows: list[tuple[str, str]]) -> None:
    """Write `name  value` lines to stdout, names aligned."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        sys.stdout.write(plain(f"{name.ljust(width)}  {value}").rstrip() + "\n")


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Write a plain table to stdout, columns aligned at their left."""
    every = [header, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(header))]
    for row in every:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(plain(line).rstrip() + "\n")


def log(message: str) -> None:
    """Write a line for people to stderr; the middle of a very long one is left out."""
    line = " ".join(plain(message).split())
    if len(line) > MAX_SENTENCE:
        line = f"{line[: MAX_SENTENCE * 3 // 4]} … {line[-MAX_SENTENCE // 4 :]}"
    sys.stderr.write(line + "\n")


def plain(text: str) -> str:
    """`text` without control characters."""
    # Names come out of files of strangers, and a terminal obeys control characters.
    return _CONTROL.sub(" ", text)
