"""Level of detail: what each pixel of a timeline row shows, exactly; the oracle of the browser's code.

A span of at least one pixel owns the pixels it rounds to. Shorter ones are not drawn one by one:
their pixels show shares, each role as high as its exact share of the pixel's time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerosim.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowSpans:
    """Spans sorted by (row, start): `row`, `start_ns`, `end_ns` and `role`, one entry a span each."""

    n_rows: int
    row: Ints
    start_ns: Floats
    end_ns: Floats
    role: Ints


@dataclass(frozen=True, slots=True)
class Window:
    """The time from `t0_ns` to `t1_ns` on `width` pixels."""

    t0_ns: float
    t1_ns: float
    width: int

    def __post_init__(self) -> None:
        """Refuse a window without pixels or time."""
        if self.width < 1 or not self.t1_ns > self.t0_ns:
            raise InputError(
                f"a window of {self.width} pixels from {self.t0_ns} to {self.t1_ns} ns: "
                "give at least one pixel and an end after the start"
            )

    @property
    def pixel_ns(self) -> float:
        """Nanoseconds a pixel."""
        return (self.t1_ns - self.t0_ns) / self.width


def share_stacks(spans: RowSpans, window: Window, n_roles: int) -> Floats:
    """Nanoseconds of each role in each pixel: array (n_rows, width, n_roles).

    Summed over pixels it is the sum of the durations, clipped to the window.
    """
    lo = np.clip(spans.start_ns, window.t0_ns, window.t1_ns) - window.t0_ns
    hi = np.clip(spans.end_ns, window.t0_ns, window.t1_ns) - window.t0_ns
    seen = hi > lo
    lo, hi = lo[seen] / window.pixel_ns, hi[seen] / window.pixel_ns
    row, role = spans.row[seen], spans.role[seen]
    first = np.minimum(lo.astype(np.int64), window.width - 1)
    last = np.minimum(hi.astype(np.int64), window.width)
    shape = (spans.n_rows, window.width + 1, n_roles)
    stacks = np.zeros(shape)
    within = np.zeros(shape)
    # Each edge adds what lies right of it in its pixel; pixels further right are whole.
    np.add.at(stacks, (row, first, role), first + 1 - lo)
    np.add.at(stacks, (row, last, role), -(last + 1 - hi))
    np.add.at(within, (row, np.minimum(first + 1, window.width), role), 1.0)
    np.add.at(within, (row, np.minimum(last + 1, window.width), role), -1.0)
    total = stacks + np.cumsum(within, axis=1)
    return np.maximum(total[:, : window.width, :], 0.0) * window.pixel_ns


def pixel_owners(spans: RowSpans, window: Window) -> Ints:
    """Which span owns a pixel, array (n_rows, width): its position, or -1 for none.

    Only spans of at least one pixel own any, so a row never shows more of them than it has pixels.
    """
    x0 = (spans.start_ns - window.t0_ns) / window.pixel_ns
    x1 = (spans.end_ns - window.t0_ns) / window.pixel_ns
    owners = np.full((spans.n_rows, window.width), -1, dtype=np.int64)
    visible = (x1 - x0 >= 1) & (x1 > 0) & (x0 < window.width)
    for i in np.flatnonzero(visible):
        first = max(0, int(np.floor(x0[i] + 0.5)))
        after = min(window.width, int(np.floor(x1[i] + 0.5)))
        owners[spans.row[i], first:after] = i
    return owners


def visible_shares(spans: RowSpans, window: Window, n_roles: int) -> Floats:
    """The shares of spans too short to own a pixel, (n_rows, width, n_roles), in ns.

    Pixels that a longer span owns show that span and no shares.
    """
    short = (spans.end_ns - spans.start_ns) / window.pixel_ns < 1
    brief = RowSpans(
        spans.n_rows,
        spans.row[short],
        spans.start_ns[short],
        spans.end_ns[short],
        spans.role[short],
    )
    shares = share_stacks(brief, window, n_roles)
    shares[pixel_owners(spans, window) >= 0] = 0.0
    return shares
