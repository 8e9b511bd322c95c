"""Units, converted once at the edge: seconds to integer nanoseconds, dtypes to bytes, numbers to text."""

from __future__ import annotations

import math
import re
from typing import Final

from zerosim.errors import InputError, UnknownNameError

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
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


def read_rate(text: str, what: str = "rate") -> float:
    """`200Mbit`, `1.5Gbit/s`, `25MBps` or `25MB/s` in bytes a second; `what` has it. Raises InputError.

    `100Mbps` is read in two ways, and so in none: only a capital B counts as bytes.
    """
    found = _RATE.fullmatch(text.strip())
    size = 0.0 if found is None else float(found["number"]) * _MANY[found["many"].lower()]
    if found is None or not size:
        raise InputError(
            f"{what} is '{text[:40]}': give bits a second, as in 200Mbit, or bytes, as in 25MBps"
        )
    return size if found["bits"] is None else size / 8


def read_delay(text: str, what: str = "delay") -> float:
    """`50us`, `1.5ms` or `0s` in seconds; `what` has it. Raises InputError."""
    found = _DELAY.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{what} is '{text[:40]}': give a time, as in 50us or 1ms")
    return float(found["number"]) * _SECONDS[found["unit"]]


_RATE: Final = re.compile(
    r"(?P<number>\d{1,9}(?:\.\d{1,9})?) ?(?P<many>[kKmMgG]?)(?:(?P<bits>[bB]it(?:/s)?)|Bps|B/s)"
)
_MANY: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_DELAY: Final = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>us|µs|ms|s)")
_SECONDS: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
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
