"""What any importer makes of one file: the rows of one rank, and what the file says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from zerosim.quality import Quality
from zerosim.trace import SAMPLES, SPANS, Group

ROWS: Final[dict[str, pl.DataType]] = {
    **{name: dtype for name, dtype in SPANS.items() if name not in ("rank", "collective")},
    "sequence": pl.Int64(),
}
"""Columns of `Recording.spans`; `sequence` numbers the collectives of a group (null: unknown)."""

COUNTS: Final[dict[str, pl.DataType]] = {n: d for n, d in SAMPLES.items() if n != "rank"}
"""Columns of `Recording.samples`."""


@dataclass(frozen=True, slots=True)
class Window:
    """When a step ran, in ns."""

    step: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Recording:
    """One rank's part of a run, before the ranks are put together. One file may hold several.

    `spans` has columns ROWS in host issue order, `samples` columns COUNTS. `rank` is what the file
    says, null if it does not; `absolute`: its times count from the epoch, so files are comparable.
    """

    source: str
    rank: int | None
    world_size: int | None
    device: str | None
    spans: pl.DataFrame
    samples: pl.DataFrame
    windows: tuple[Window, ...]
    groups: tuple[Group, ...]
    absolute: bool
    quality: Quality
    asked_for: bool = True
    """False: its rank was not asked for, so that nothing of it was read."""


def left_out(source: str, rank: int | None) -> Recording:
    """A recording whose rank was not asked for."""
    spans, samples = pl.DataFrame(schema=ROWS), pl.DataFrame(schema=COUNTS)
    return Recording(
        source, rank, None, None, spans, samples, (), (), True, Quality(), asked_for=False
    )
