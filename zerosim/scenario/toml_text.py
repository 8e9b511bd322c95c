"""TOML as Python reads it, but for keys of so many parts that reading them takes all memory."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

_MAX_PARTS: Final = 50
_LONG_KEY: Final = re.compile(rf"""(?:\.[ \t]*[\w"'-]+[ \t]*){{{_MAX_PARTS}}}""")


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError, as tomllib does.

    tomllib keeps every prefix of a dotted key: of one with 100,000 parts, tens of gigabytes.
    """
    found = _LONG_KEY.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"Key of over {_MAX_PARTS} parts (at line {line}, column 1)")
    return tomllib.loads(text)
