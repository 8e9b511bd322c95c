"""Microseconds as profilers write them, to whole nanoseconds, exactly."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Final

EXACT_BELOW_US: Final = float(2**43)
"""A float of microseconds holds three decimals exactly enough (to half a ns) below this."""

_LIMIT_NS: Final = 2**61
_DECIMALS: Final = re.compile(rb'"ts":\s*\d+\.(\d+)')
_SAMPLE: Final = 2**18


class InexactError(ValueError):
    """A time has more digits than a float holds: the file has to be read digit by digit."""


def nanoseconds(us: object) -> int | None:
    """`us` microseconds (int, float, Decimal or text) in whole ns; None if it is no such number.

    Decimals are read as decimals: 1.5 is 1500 ns, however few digits were written.
    """
    if isinstance(us, float):
        if not math.isfinite(us):
            return None
        # Apart: the product of the whole would round twice, and so be off by one now and then.
        whole = int(us)
        ns = whole * 1000 + round((us - whole) * 1000)
    elif isinstance(us, bool):
        return None
    elif isinstance(us, int):
        ns = us * 1000
    elif isinstance(us, Decimal | str):
        ns = _from_decimal(us)
    else:
        return None
    return ns if -_LIMIT_NS < ns < _LIMIT_NS else None


def fits_float(us: object) -> bool:
    """Whether reading `us` as a float lost nothing."""
    return not isinstance(us, float) or abs(us) < EXACT_BELOW_US


def has_uneven_decimals(raw: bytes) -> bool:
    """Whether times are written with decimals of several lengths, though none has more than three.

    For some weeks in 2024 a profiler wrote `x.5` for 5 ns; nobody can tell that from half a µs.
    """
    lengths = {len(digits) for digits in _DECIMALS.findall(raw[:_SAMPLE])}
    return len(lengths) > 1 and max(lengths) <= 3  # noqa: PLR2004 - nanoseconds of a microsecond


def _from_decimal(us: Decimal | str) -> int:
    try:
        value = Decimal(us)
        if not value.is_finite() or value.adjusted() > 18:  # noqa: PLR2004 - beyond int64 ns
            return _LIMIT_NS
        return int((value * 1000).to_integral_value())
    except InvalidOperation:
        return _LIMIT_NS
