"""Units, converted once at the edge: seconds to integer nanoseconds, dtypes to bytes, numbers to text."""

from __future__ import annotations

import math
import re
from typing import Final

from zerosim.errors import InputError, UnknownNameError

NS_PER_S: Final = 1_000_000_000
NS_PER_US: Final = 1_000

DTYPE_BYTES: Final[dict[str, int]] = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Bytes of one element, by torch's dtype names."""


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of `dtype` (torch's name). Raises UnknownNameError."""
    try:
        return DTYPE_BYTES[dtype]
    except KeyError:
        raise UnknownNameError("dtype", dtype, DTYPE_BYTES) from None


def seconds_to_ns(seconds: float) -> int:
    """Whole nanoseconds, rounded up so that nothing that takes time takes none. Raises InputError."""
    if not math.isfinite(seconds * NS_PER_S) or seconds < 0:
        raise InputError(f"a duration of {seconds} s: give a finite, non-negative number")
    # A millionth of a nanosecond is rounding of the product, not time.
    return math.ceil(seconds * NS_PER_S - 1e-6)


def format_ns(ns: float | None) -> str:
    """`1.5 ms`, three digits, as people read it; `unknown` for None."""
    return _readable(ns, _TIMES, "ns", digits=3)


def format_bytes(nbytes: float | None) -> str:
    """`1.5 GB` (decimal, as the papers count), three digits; `unknown` for None."""
    return _readable(nbytes, _SIZES, "B", digits=3)


def format_count(n: float | None) -> str:
    """`7.5 B` for a number of parameters, four digits; `unknown` for None."""
    return _readable(n, _COUNTS, "", digits=4)


def read_number(text: str) -> float | None:
    """`7.5e9`, `7.5B` (parameters), `80GB` or `24 GiB` (bytes) as a number; None if it is none."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found["unit"] not in _SUFFIXES:
        return None
    return float(found["number"]) * _SUFFIXES[found["unit"]]


def read_rate(text: str) -> float:
    """`400Mbit` (a second) in bytes a second. Raises InputError."""
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found["number"]):
        raise InputError(f"rate '{text}' cannot be read: write 400Mbit, 1.5Gbit or 800kbit")
    return float(found["number"]) * _BITS[found["unit"]] / 8


_RATE: Final = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?)(?P<unit>[kMG])bit")
_BITS: Final = {"k": 1e3, "M": 1e6, "G": 1e9}
_NUMBER: Final = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) ?(?P<unit>[A-Za-z]*)"
)
_SUFFIXES: Final[dict[str, float]] = {
    "": 1,
    **dict.fromkeys(("k", "K", "kB"), 1e3),
    **dict.fromkeys(("M", "MB"), 1e6),
    **dict.fromkeys(("B", "G", "GB"), 1e9),
    **dict.fromkeys(("T", "TB"), 1e12),
    **{f"{letter}iB": 2.0 ** (10 * i) for i, letter in enumerate("KMGT", 1)},
}
"""`B` alone is a billion, as people write sizes of models."""

_Units = tuple[tuple[float, str], ...]
_TIMES: Final[_Units] = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES: Final[_Units] = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_COUNTS: Final[_Units] = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def _readable(value: float | None, units: _Units, plain: str, *, digits: int) -> str:
    if value is None:
        return "unknown"
    # What rounds to 1000 of a unit is 1 of the next one.
    rounds_up = 1 - 0.5 / 10**digits
    for size, unit in units:
        if abs(value) >= rounds_up * size:
            scaled = value / size
            form = f".{digits}g" if abs(scaled) < 10**digits else ",.0f"
            return f"{scaled:{form}} {unit}"
    return f"{value:.0f} {plain}".rstrip()
