"""Flight recorder dumps (pickle or JSON, one a rank) to recordings: what was called, and what ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content, first_byte
from zerosim.importers.flight import header as heads
from zerosim.importers.flight.calls import Call, read_calls, sequences, text
from zerosim.importers.loose_json import Parsed, parse_json
from zerosim.importers.pickled import is_pickle, parse_pickle, salvage_pickle
from zerosim.importers.recording import Recording, remarks, tabulate
from zerosim.kinds import SIZED
from zerosim.quality import MAX_PLACES, Place, Quality
from zerosim.trace import Flag, Group

_LISTED: Final = re.compile(rb'"entries"\s*:\s*\[|"pg_status"\s*:\s*\{')
_MOST_ENTRIES: Final = 2**20
_UNTIMED: Final = (
    "when collectives began and ended: a flight recorder notes when the host called them"
)
_CLOCKS: Final = "how far the clocks of the hosts are apart: there are no ends to compare"
_LATE: Final = "exact ends: the recorder's watchdog looks every 100 ms or so, durations are exact"
_ALONE: Final = "what was computed, and in which step: a flight recorder sees collectives alone"
_NAMED: Final = "the rank: it is the number at the end of the file's name"
_GLOO: Final = "reduce-scatters: Gloo carries them out as all-reduces, and notes those"


def sniff(raw: bytes) -> bool:
    """Whether `raw` is a dump: a pickle or JSON with process groups, and calls or their status."""
    if is_pickle(raw):
        return b"pg_config" in raw and (b"entries" in raw or b"pg_status" in raw)
    if first_byte(raw) != b"{":
        return False
    return b'"pg_config"' in raw and _LISTED.search(raw) is not None


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """The recording in one dump. Raises TraceFileError for a pickle that is more than plain values."""
    parsed = _parsed(content, salvage=choice.salvage)
    dump = parsed.document
    entries = dump.get("entries", []) if isinstance(dump, dict) else None
    if not isinstance(dump, dict) or not isinstance(entries, list | tuple):
        raise TraceFileError(
            f"'{content.path}' has no list of entries: give a flight recorder dump"
        )
    if len(entries) > _MOST_ENTRIES:
        raise TraceFileError(
            f"'{content.path}' has over {_MOST_ENTRIES} entries: give a flight recorder dump"
        )
    calls, lost = read_calls(entries, heads.completed(dump))
    groups = heads.groups(dump, [call.group for call in calls])
    rank = heads.rank_of(content.path.name, groups)
    recording = Recording(
        source=content.path.name,
        rank=None if choice.rank is not None else rank,  # whoever gives the rank is believed
        world_size=_world(dump, groups),
        spans=_spans(calls),
        groups=groups,
        absolute=True,
        quality=_quality(content, parsed, dump, calls, lost, by_name=choice.rank is None),
    )
    return (recording,)


def _parsed(content: Content, *, salvage: bool) -> Parsed:
    if not is_pickle(content.raw):
        return parse_json(content)
    name, size = content.path.name, len(content.raw)
    if salvage and (kept := salvage_pickle(content)) is not None:
        said = (f"'{name}' ends early, at byte {size}: its whole calls are kept, the others lost",)
        return Parsed(kept, warnings=said, lost=1, places=(Place(name, size, "the file ends"),))
    return Parsed(parse_pickle(content))


def _world(dump: dict[str, Any], groups: Sequence[Group]) -> int | None:
    listed = dump.get("pg_config")
    described = {
        key: entry.get("desc")
        for key, entry in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(entry, dict)
    }
    return next((g.size for g in groups if described.get(g.name) == "default_pg"), None)


def _spans(calls: Sequence[Call]) -> pl.DataFrame:
    return tabulate(
        {
            "stream": ["calls"] * len(calls),
            "kind": [c.kind for c in calls],
            "name": [c.name for c in calls],
            "issued_ns": [c.created_ns for c in calls],
            "start_ns": [c.start_ns for c in calls],
            "end_ns": [c.end_ns for c in calls],
            "group": [c.group for c in calls],
            "elements": [c.elements for c in calls],
            "nbytes": [c.nbytes for c in calls],
            "dtype": [c.dtype for c in calls],
            "flags": [int(c.flags) for c in calls],
            "sequence": sequences(calls),
        },
    )


def _quality(
    content: Content,
    parsed: Parsed,
    dump: dict[str, Any],
    calls: Sequence[Call],
    lost: Sequence[int],
    *,
    by_name: bool,
) -> Quality:
    name = content.path.name
    version = text(dump.get("version"))
    unfinished = sum(Flag.UNFINISHED in c.flags for c in calls)
    unsized = sum(c.elements is None and c.kind in SIZED for c in calls)
    last = calls[-1].number if calls else None
    gone = last + 1 - len(calls) - len(lost) if last is not None else 0
    notes = (
        (not calls, "has no calls"),
        (
            not (version or "").startswith("2."),
            f"is of version {version}, not 2: read as if it were",
        ),
        (gone > 0 and gone, "lacks {} earlier calls: overwritten, or ended before the dump"),
        (unfinished, "has {} calls that never ended"),
        (unsized, "has {} collectives of unknown size"),
        (len(lost), "has {} entries without a name or a time: left out"),
    )
    odd = (f"entry {i} has no name or no time: left out" for i in lost[:MAX_PLACES])
    return Quality(
        events=len(calls) + len(lost),
        repaired=parsed.repaired,
        skipped=parsed.skipped + len(lost),
        lost=parsed.lost,
        unsized=unsized,
        warnings=(*content.warnings, *parsed.warnings, *remarks(name, notes)),
        places=(*parsed.places, *(Place(name, None, what) for what in odd)),
        unknown=_unknown(calls, by_name=by_name),
    )


def _unknown(calls: Sequence[Call], *, by_name: bool) -> tuple[str, ...]:
    untimed = sum(Flag.UNTIMED in c.flags for c in calls)
    silent = (
        (untimed, _UNTIMED),
        (untimed and untimed == len(calls), _CLOCKS),
        (len(calls) > untimed, _LATE),
        (True, _ALONE),
        (by_name, _NAMED),
        (any(c.name.startswith("gloo:all_reduce") for c in calls), _GLOO),
    )
    return tuple(says for is_so, says in silent if is_so)
