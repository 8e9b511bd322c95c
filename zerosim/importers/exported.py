"""Chrome JSON that zerosim exported: what our own columns say stands in each event's arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content, first_byte
from zerosim.importers.counts import count
from zerosim.importers.kineto import header as heads
from zerosim.importers.kineto.events import STEP, sort_events
from zerosim.importers.kineto.reading import Reading, read_events
from zerosim.importers.kineto.steps import step_windows
from zerosim.importers.kineto.times import InexactError, fits_float, nanoseconds
from zerosim.importers.recording import COUNTS, Recording, Rows, refuse_many
from zerosim.kinds import KINDS, SIZED
from zerosim.quality import Quality
from zerosim.trace import MAX_RANKS, SPANS, Flag, flagged, of_kind

FORMAT: Final = 1
KEY: Final = "zerosim"
"""The key of the header and of the arguments in which the exporter writes what Kineto has no word for."""
TOLD: Final = tuple(c for c in SPANS if c not in ("rank", "start_ns", "end_ns"))
"""The columns that stand in the arguments; times are those of the event itself."""
_BOUNDS: Final[dict[pl.DataType, int]] = {pl.Int32(): 2**31, pl.Int64(): 2**62, pl.UInt8(): 2**8}
_OPTIONAL: Final = frozenset(TOLD) - {"stream", "kind", "name", "flags"}


@dataclass(slots=True)
class _Pile:
    """What has been read of one rank."""

    events: int = 0
    skipped: int = 0
    rows: Rows = field(default_factory=Rows)
    counts: list[tuple[int, str, int]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)


def sniff(raw: bytes) -> bool:
    """Whether `raw` is a Chrome trace whose header says that it came from here."""
    head = raw[: 2**12]
    return first_byte(head) == b"{" and f'"{KEY}"'.encode() in head and b'"origin_ns"' in head


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """One recording a rank. Raises TraceFileError for a file that is damaged or of a newer zerosim."""

    def sift(header: dict[str, Any], events: Iterator[Any]) -> dict[int, _Pile]:
        piles: dict[int, _Pile] = defaultdict(_Pile)
        origin = _origin(content, header)
        for event in events:
            _sort_in(event, piles[_rank_of(event, header)], origin)
            refuse_many(content.path, len(piles))
        return piles

    return tuple(_recordings(content, read_events(content, sift, salvage=choice.salvage)))


def _rank_of(event: object, header: dict[str, Any]) -> int:
    rank = event.get("pid") if isinstance(event, dict) else None
    return rank if type(rank) is int and 0 <= rank < MAX_RANKS else heads.rank(header) or 0


def _origin(content: Content, header: dict[str, Any]) -> int:
    own = header.get(KEY)
    if not isinstance(own, dict):
        raise TraceFileError(f"'{content.path}' has lost its header: export it again")
    if own.get("format") != FORMAT:
        raise TraceFileError(
            f"'{content.path}' has format {own.get('format')!r}, not {FORMAT}: update zerosim"
        )
    origin = own.get("origin_ns")
    if type(origin) is not int or abs(origin) >= 2**61:
        raise TraceFileError(f"'{content.path}' does not say when its clock began: export it again")
    return origin


def _sort_in(event: Any, pile: _Pile, origin: int) -> None:  # noqa: ANN401 - whatever a file holds
    pile.events += 1
    if not isinstance(event, dict):
        pile.skipped += 1
        return
    if not fits_float(event.get("ts")) and nanoseconds(event.get("ts")) is not None:
        raise InexactError  # what is no time either way is left out
    own = event["args"].get(KEY) if isinstance(event.get("args"), dict) else None
    if event.get("ph") == "X" and own is not None:
        row = _row(event, own, origin)
        pile.skipped += row is None
        if row:
            pile.rows.add(row)
    elif event.get("ph") == "C":
        count = _count(event, origin)
        pile.skipped += count is None
        pile.counts += [count] if count else []
    elif event.get("ph") == "X" and str(event.get("name")).startswith(STEP):
        pile.steps.append(event)
        pile.skipped += nanoseconds(event.get("ts")) is None


def _row(event: dict[str, Any], own: object, origin: int) -> dict[str, Any] | None:
    start, length = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
    if start is None or length is None or length < 0 or not isinstance(own, dict):
        return None
    row = {column: own.get(column) for column in TOLD}
    if row["kind"] not in KINDS or not all(_fits(c, row[c]) for c in TOLD):
        return None
    row["sequence"] = row.pop("collective")
    return row | {"start_ns": origin + start, "end_ns": origin + start + length}


def _fits(column: str, value: object) -> bool:
    if value is None:
        return column in _OPTIONAL
    limit = _BOUNDS.get(SPANS[column])
    if limit is None:
        return isinstance(value, str)
    return type(value) is int and (0 if column == "flags" else -limit) <= value < limit


def _count(event: dict[str, Any], origin: int) -> tuple[int, str, int] | None:
    moment, name, args = nanoseconds(event.get("ts")), event.get("name"), event.get("args")
    value = next(iter(args.values()), None) if isinstance(args, dict) else None
    if moment is None or not isinstance(name, str) or type(value) is not int:
        return None
    return (origin + moment, name, value) if abs(value) < 2**62 else None


def _recordings(content: Content, read: Reading[dict[int, _Pile]]) -> Iterator[Recording]:
    header, piles = read.header, read.found
    spans = {rank: pile.rows.table() for rank, pile in piles.items()}
    skipped = read.skipped + sum(pile.skipped for pile in piles.values())
    told = sum(count(header[KEY].get(key)) or 0 for key in ("spans", "samples"))
    found = sum(spans[rank].height + len(pile.counts) for rank, pile in piles.items())
    said = (*content.warnings, *read.warnings, *_doubts(content, told, found, skipped))
    for rank, pile in sorted(piles.items()):
        first = rank == min(piles)
        yield Recording(
            source=content.path.name,
            rank=rank,
            world_size=heads.world_size(header),
            device=heads.device_name(header, 0),
            spans=spans[rank],
            samples=pl.DataFrame(pile.counts, schema=COUNTS, orient="row"),
            windows=step_windows(sort_events(pile.steps, header[KEY]["origin_ns"]).steps),
            groups=heads.groups(header),
            absolute=header[KEY].get("aligned") is True,
            quality=Quality(
                events=pile.events,
                repaired=read.repaired if first else 0,
                skipped=pile.skipped + (read.skipped if first else 0),
                lost=max(read.lost, told - found - skipped) if first else 0,
                before_window=spans[rank].filter(flagged(Flag.BEFORE_WINDOW)).height,
                unsized=spans[rank].filter(of_kind(SIZED) & pl.col("elements").is_null()).height,
                warnings=said if first else (),
                places=read.places if first else (),
            ),
        )


def _doubts(content: Content, told: int, found: int, skipped: int) -> Iterator[str]:
    name = content.path.name
    if told != found:
        yield f"'{name}' has {found} of the {told} spans and samples that its header speaks of"
    if skipped:
        yield f"'{name}' has {skipped} events that cannot be read: left out"
