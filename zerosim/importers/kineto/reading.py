"""The events of a Chrome trace, however it is written: in batches where it can be, else from one tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from zerosim.errors import TraceFileError
from zerosim.importers.collecting import no_collection
from zerosim.importers.content import HELD_BYTES, Content, held
from zerosim.importers.kineto.mending import Mender
from zerosim.importers.kineto.stream import UnsoundError, read_batches
from zerosim.importers.kineto.times import InexactError
from zerosim.importers.loose_json import Parsed, parse_exactly, parse_json
from zerosim.quality import MAX_PLACES, Place

WHOLE_BYTES: Final = 2**24
"""A damaged file up to this size is read whole: its tree takes ten times as much."""

T = TypeVar("T")
Sift = Callable[[dict[str, Any], Iterator[Any]], T]
"""Makes something of a header and the events; raises InexactError if a time has lost digits as a float."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What a file says of itself, what was found in its events and their number, and what was mended."""

    header: dict[str, Any]
    found: T
    n_events: int
    repaired: int = 0
    skipped: int = 0
    warnings: tuple[str, ...] = ()
    lost: int = 0
    places: tuple[Place, ...] = ()


def read_events(content: Content, sift: Sift[T], *, salvage: bool) -> Reading[T]:
    """What `sift` makes of a file. Raises TraceFileError for a file that cannot be read as a trace."""
    with no_collection():
        try:
            try:
                return _batched(Mender(content, exactly=False, salvage=salvage), sift)
            except InexactError:
                return _batched(Mender(content, exactly=True, salvage=salvage), sift)
        except UnsoundError:
            return _whole_tree(_small(content), sift, salvage=salvage)


def _batched(mender: Mender, sift: Sift[T]) -> Reading[T]:
    sizes: list[int] = []

    def sized(batches: Iterator[list[Any]]) -> Iterator[list[Any]]:
        for batch in batches:
            sizes.append(len(batch))
            yield batch

    whole = mender.content.whole
    mends = mender if len(whole) > WHOLE_BYTES else None
    header, batches = read_batches(whole, exactly=mender.exactly, mends=mends)
    found = sift(header, chain.from_iterable(sized(batches)))
    told = mender.told
    return Reading(
        header,
        found,
        sum(sizes),
        sum(part.repaired for part in told),
        sum(part.skipped for part in told),
        _few(tuple(dict.fromkeys(warning for part in told for warning in part.warnings))),
        sum(part.lost for part in told),
        tuple(place for part in told for place in part.places)[:MAX_PLACES],
    )


def _few(warnings: tuple[str, ...]) -> tuple[str, ...]:
    more = len(warnings) - MAX_PLACES
    return (*warnings[:MAX_PLACES], f"and {more} more of this sort") if more > 0 else warnings


def _small(content: Content) -> Content:
    """`content`, if a tree of it is to be borne."""
    if len(content.whole) > HELD_BYTES:
        raise TraceFileError(
            f"'{content.path}' is too big to be mended, and its list of events is damaged, or in UTF-16,"
            " or not the only one: export it again"
        )
    return held(content, HELD_BYTES)


def _whole_tree(content: Content, sift: Sift[T], *, salvage: bool) -> Reading[T]:
    try:
        return _of_tree(content, parse_json(content, salvage=salvage), sift)
    except InexactError:
        return _of_tree(content, parse_exactly(content, salvage=salvage), sift)


def _of_tree(content: Content, parsed: Parsed, sift: Sift[T]) -> Reading[T]:
    document = parsed.document
    header: dict[str, Any] = document if isinstance(document, dict) else {}
    listed = header.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise TraceFileError(f"'{content.path}' has no list of traceEvents: export it again")
    return Reading(
        header,
        sift(header, iter(listed)),
        len(listed),
        parsed.repaired,
        parsed.skipped,
        parsed.warnings,
        parsed.lost,
        parsed.places,
    )
