"""Units, converted once at the edge: seconds to integer nanoseconds, dtypes to bytes, numbers to text."""

from __future__ import annotations

import math
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
    return math.ceil(seconds * NS_PER_S - 1e-6)


def format_ns(ns: float | None) -> str:
    """`1.50 ms`, as people read it; `unknown` for None."""
    if ns is None:
        return "unknown"
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(ns) >= size:
            return (
                f"{ns / size:.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:,.0f} {unit}"
            )
    return f"{ns:.0f} ns"


def format_bytes(nbytes: float | None) -> str:
    """`1.50 GB` (decimal, as the papers count); `unknown` for None."""
    if nbytes is None:
        return "unknown"
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes:.0f} B"


def format_count(n: float | None) -> str:
    """`7.5 B` for a number of parameters; `unknown` for None."""
    if n is None:
        return "unknown"
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(n) >= size:
            return f"{n / size:.4g} {unit}"
    return f"{n:.0f}"
