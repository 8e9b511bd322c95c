"""Axes in the unit that people would say: ns to ms, bytes to GB, one unit a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_BYTES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


@dataclass(frozen=True, slots=True)
class Scale:
    """Divide by `size` to get numbers in `unit`."""

    size: float
    unit: str

    def __call__(self, values: list[int]) -> list[float]:
        """`values` in this unit."""
        return [value / self.size for value in values]


def time_scale(largest_ns: float) -> Scale:
    """The unit in which `largest_ns` is at least 1 and readable."""
    return _pick(_TIMES, largest_ns)


def byte_scale(largest: float) -> Scale:
    """The decimal unit in which `largest` bytes are at least 1 and readable."""
    return _pick(_BYTES, largest)


def _pick(units: tuple[tuple[float, str], ...], largest: float) -> Scale:
    return next((Scale(s, u) for s, u in units if abs(largest) >= s), Scale(*units[-1]))
