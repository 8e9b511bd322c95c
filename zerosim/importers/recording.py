"""What any importer makes of one file: the rows of one rank, and what the file says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from zerosim.errors import TraceFileError
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


EPOCH_NS: Final = 1_000_000_000_000_000_000
"""Sep 2001: a time after this counts from the epoch, one before it from some start."""

_ONE: Final = re.compile(r"\{\} ((?:earlier )?[\w-]+)s\b")
"""Of one thing sentences speak in the singular."""
MAX_NODES: Final = 2**21
"""A node of a graph takes about a kilobyte: so many fill 2 GiB."""
MAX_RECORDINGS: Final = 2**14
"""So many ranks one file may tell of: each costs a table."""
MAX_GROUPS: Final = 2**16
"""So many process groups of a file are kept."""
MAX_MEMBERS: Final = 2**22
"""So many ranks all of its groups may list; those of further groups are unknown."""
MAX_UNLISTED: Final = 2**16
"""So large a group is made of ranks that the file does not list, since it has all."""
_AT_ONCE: Final = 2**15
"""So many rows become columns together."""
NO_SAMPLES: Final = pl.DataFrame(schema=COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One rank's part of a run, before the ranks are put together. One file may hold several.

    `spans` has columns ROWS in host issue order, `samples` columns COUNTS. `rank` is what the file
    says, null if it does not; `absolute`: its times count from the epoch, so files are comparable.
    `clock` names what other times are read from: recordings of one clock are comparable, too.
    `asked_for` False: its rank was not asked for, so that nothing of it was read.
    """

    source: str
    rank: int | None
    spans: pl.DataFrame
    quality: Quality
    world_size: int | None = None
    device: str | None = None
    samples: pl.DataFrame = field(default_factory=lambda: NO_SAMPLES)
    windows: tuple[Window, ...] = ()
    groups: tuple[Group, ...] = ()
    absolute: bool = False
    clock: str | None = None
    asked_for: bool = True


def tabulate(columns: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    """A table of columns ROWS; those that are not in `columns` are null."""
    return pl.DataFrame({**dict.fromkeys(ROWS), **columns}, schema=ROWS)


@dataclass(slots=True)
class Rows:
    """Rows in the making; many of them become columns at once, which take a tenth of the room."""

    waiting: list[dict[str, Any]] = field(default_factory=list)
    frames: list[pl.DataFrame] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row; columns that it lacks are null."""
        self.waiting.append(row)
        if len(self.waiting) >= _AT_ONCE:
            self.frames, self.waiting = [*self.frames, self._columns()], []

    def table(self) -> pl.DataFrame:
        """All of them, as columns ROWS."""
        return pl.concat([*self.frames, self._columns()])

    def _columns(self) -> pl.DataFrame:
        return tabulate({name: [row.get(name) for row in self.waiting] for name in ROWS})


def is_absolute(first_ns: int | None) -> bool:
    """Whether times count from the epoch, so that files of several ranks can be laid side by side."""
    return first_ns is not None and first_ns > EPOCH_NS


def refuse_graph(path: Path, n: int) -> None:
    """Raises TraceFileError for a graph of `n` nodes, if that is more than memory is to hold."""
    if n > MAX_NODES:
        raise TraceFileError(
            f"'{path}' has {n:,} nodes or more, over {MAX_NODES:,}: record fewer steps"
        )


def refuse_many(path: Path, n: int) -> None:
    """Raises TraceFileError where one file tells of `n` ranks, and no file tells of so many."""
    if n > MAX_RECORDINGS:
        raise TraceFileError(
            f"'{path}' tells of over {MAX_RECORDINGS} ranks: it is damaged, or give it in parts"
        )


def remarks(name: str, notes: Iterable[tuple[object, str]]) -> tuple[str, ...]:
    """Sentences on the file called `name`: of each (count, what is to be said of so many) that counts."""
    return tuple(f"'{name}' {_counted(count, text)}" for count, text in notes if count)


def _counted(count: object, text: str) -> str:
    if count == 1 and count is not True:
        text = _ONE.sub(r"1 \1", text)
    return text.replace("{}", str(count))


def left_out(source: str, rank: int | None) -> Recording:
    """A recording whose rank was not asked for."""
    nothing = pl.DataFrame(schema=ROWS)
    return Recording(source=source, rank=rank, spans=nothing, quality=Quality(), asked_for=False)
