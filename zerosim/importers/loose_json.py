"""JSON as profilers really write it: parsed fast when it is sound, mended event by event when not."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import orjson

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content
from zerosim.importers.text import Text, read_text
from zerosim.quality import MAX_PLACES, Place

_EVENTS: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_ARRAY: Final = re.compile(r"\s*\[")
_BETWEEN: Final = re.compile(r"[\s,]*")
_NEXT: Final = re.compile(
    r'\}(?=\s*+(?:,\s*+)?\{\s*"(?:ph|name|cat|pid|tid|ts|id|args|s)"\s*:|\s*\]\s*(?:,\s*"|\}|$))'
)
_FAULT: Final = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+"?)'  # one without an end is none to search again from within
    r"|(?P<word>(?<=[:\[,\s])(?:N/A|[-+]?nan(?:\(\w*\))?|[-+]?inf(?:inity)?|None|undefined)(?=\s*[,}\]]))"
    r"|(?P<hex>(?<=[:\[,\s])0x[0-9a-f]{1,256}(?=\s*[,}\]]))"
    r"|(?P<comma>,(?=\s*[}\]]))",
    re.IGNORECASE | re.DOTALL,
)
_BAD_ESCAPE: Final = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_HALF_CHARACTER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_LONE_BACKSLASH: Final = re.compile(r'\\(?:\\|")|\\')

# Note [Windows]: json counts the lines before an error, so that a file of broken events would take
# time with the square of its size. Events are tried in a window that begins with them.
_WINDOWS: Final = (2**12, 2**18)
_LONGEST_WORD: Final = 16
"""A fault so close to the end of a window may be the window's: `-Infinity`, an escape."""


MAX_VALUES: Final = 2**23
"""A trace of 128 MiB has a quarter as many; an empty object takes 64 bytes of memory, for two of a file."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document, and how many of its events were mended, left out, or cut off with the file's end.

    `end`: where the list of events ended, if they had to be read one by one.
    """

    document: Any
    repaired: int = 0
    skipped: int = 0
    warnings: tuple[str, ...] = ()
    lost: int = 0
    places: tuple[Place, ...] = ()
    end: int | None = None


def parse_json(content: Content, *, salvage: bool = False, kept: int = 0) -> Parsed:
    """The document in `content`; numbers with a fraction come as floats.

    `salvage`: of a file that ends early, its whole events, and of the `kept` that were read before.
    Raises TraceFileError, with line and column or the byte, for what cannot be mended.
    """
    if content.raw.count(b"{") + content.raw.count(b"[") > MAX_VALUES:
        raise TraceFileError(
            f"'{content.path}' holds over {MAX_VALUES} lists and objects: record fewer steps"
        )
    try:
        return Parsed(orjson.loads(content.raw))
    except orjson.JSONDecodeError as error:
        return _tolerant(content, float, salvage=salvage, fault=error.pos, kept=kept)


def parse_exactly(content: Content, *, salvage: bool = False, kept: int = 0) -> Parsed:
    """As `parse_json`, but slower: numbers with a fraction come as Decimal, digit by digit.

    19-digit microseconds with three decimals do not fit a float.
    """
    return _tolerant(content, Decimal, salvage=salvage, fault=None, kept=kept)


def _tolerant(
    content: Content, number: type[float | Decimal], *, salvage: bool, fault: int | None, kept: int
) -> Parsed:
    told = read_text(content)
    # Halves of characters are JSON but no text: nothing could store them.
    text = _HALF_CHARACTER.sub(r"\\ufffd", told.text)
    decoder = json.JSONDecoder(strict=False, parse_float=number, parse_constant=lambda _: None)
    try:
        document = decoder.decode(text)
    except RecursionError:
        raise TraceFileError(
            f"'{content.path}' is nested too deeply for a trace: export it again"
        ) from None
    except ValueError as error:
        reader = _EventReader(
            content, replace(told, text=text), decoder, salvage=salvage, kept=kept
        )
        return _piecewise(reader, error)
    if not told.warnings and fault is not None and not told.marked:
        what = "NaN, control or half characters: replaced or kept as text"
        place = Place(content.path.name, told.byte(fault), what)
        said = (f"'{content.path.name}' has {what}",)
        return Parsed(document, repaired=1, warnings=said, places=(place,))
    return Parsed(document, len(told.warnings), warnings=told.warnings, places=told.places)


def _piecewise(reader: _EventReader, error: ValueError) -> Parsed:
    text, told = reader.text, reader.told
    bare = _ARRAY.match(text)
    opening = bare or _EVENTS.search(text)
    if opening is None:
        raise TraceFileError(f"'{reader.content.path}' is not JSON ({error}): export it again")
    end = reader.read(opening.end())
    # The format allows a list to lack its "]": writers that may be killed never close it.
    document: Any = reader.events
    if not bare:
        if not reader.closed:
            reader.end_early(len(text))
        tail = text[end - 1 :] if reader.closed else "]}"
        rest, mended = _load_mended(
            reader.content, text[: opening.end()] + tail, reader.decoder, error
        )
        document = {**rest, "traceEvents": reader.events}
        if mended:
            at = getattr(error, "pos", 0)
            reader.note_mended(at if not opening.end() <= at < end else end - 1)
    said = told.warnings + reader.warnings()
    places = (*told.places, *reader.places())[:MAX_PLACES]
    return Parsed(document, len(reader.mended), len(reader.skipped), said, reader.lost, places, end)


class _EventReader:
    """Reads the events of a damaged list one by one; a broken one is mended or left out."""

    def __init__(
        self, content: Content, told: Text, decoder: json.JSONDecoder, *, salvage: bool, kept: int
    ) -> None:
        self.content, self.told, self.decoder, self.salvage = content, told, decoder, salvage
        self.kept = kept
        self.text = told.text
        self.events: list[Any] = []
        self.skipped: list[int] = []
        self.mended: list[int] = []
        self.cut: int | None = None
        self.closed = False

    @property
    def lost(self) -> int:
        """Events that had begun when the file ended: there may have been any number after it."""
        return int(self.cut is not None)

    def end_early(self, position: int) -> None:
        """Note that the file ends inside the event at `position`; raises if that is not to be borne."""
        if not self.salvage:
            raise TraceFileError(
                f"'{self.content.path}' ends inside an event at byte {self.told.byte(position)}"
                " (interrupted export?): export it again, or keep the whole events by --salvage"
            )
        if self.cut is None:
            self.cut = position

    def read(self, position: int) -> int:
        """Read from `position` to the end of the list; returns where it ended."""
        commas = 0  # are due before the next event
        while True:
            begin, position = position, _end_of(_BETWEEN, self.text, position)
            if position >= len(self.text):
                return position
            self.closed = self.text[position] == "]"
            if self.text.count(",", begin, position) != (0 if self.closed else commas):
                self.note_mended(begin)
            if self.closed:
                return position + 1
            position, commas = self._event(position), 1

    def note_mended(self, position: int) -> None:
        """Count what was put right at `position`."""
        self.mended.append(position)

    def _event(self, position: int) -> int:
        try:
            event, position = self._decoded(position)
        except (ValueError, RecursionError):
            return self._mended_event(position)
        self.events.append(event)
        return position

    def _decoded(self, position: int) -> tuple[Any, int]:
        """The event at `position`, and where it ends; see Note [Windows]."""
        for width in _WINDOWS:
            window = self.text[position : position + width]
            try:
                event, end = self.decoder.raw_decode(window)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos > width - _LONGEST_WORD
                if len(window) < width or not cut:
                    raise
            else:
                if end < width:
                    return event, position + end
        event, end = self.decoder.raw_decode(self.text, position)
        return event, end

    def _mended_event(self, position: int) -> int:
        found = _NEXT.search(self.text, position)
        if found is None:
            self.end_early(position)
            return len(self.text)
        try:
            self.events.append(self.decoder.decode(mend(self.text[position : found.end()])))
            self.note_mended(position)
        except (ValueError, RecursionError):
            self.skipped.append(position)
        return found.end()

    def warnings(self) -> tuple[str, ...]:
        """What to say of the mended, skipped and lost events."""
        name = self.content.path.name
        said = [f"'{name}': events that were mended: {len(self.mended)}"] if self.mended else []
        if self.skipped:
            where = self.told.line_column(self.skipped[0])
            said.append(f"'{name}': {len(self.skipped)} events left out, the first at {where}")
        if self.cut is not None:
            kept, byte = self.kept + len(self.events), self.told.byte(self.cut)
            said.append(
                f"'{name}' ends at byte {byte} before its events do: {kept} whole events kept,"
                " 1 cut, any number missing"
            )
        return tuple(said)

    def places(self) -> tuple[Place, ...]:
        """Where events were mended or left out, by byte, the first ones."""
        odd = [(position, "mended") for position in self.mended[:MAX_PLACES]]
        odd += [(position, "event left out") for position in self.skipped[:MAX_PLACES]]
        odd += [(self.cut, "the file ends")] if self.cut is not None else []
        name = self.content.path.name
        return tuple(Place(name, self.told.byte(at), what) for at, what in sorted(odd)[:MAX_PLACES])


def mend(text: str) -> str:
    """`text` with the usual faults put right.

    Unescaped Windows backslashes, bare words for missing numbers, hexadecimal, trailing commas.
    """
    return _FAULT.sub(_mended, text)


def _mended(fault: re.Match[str]) -> str:
    if fault["comma"]:
        return ""
    if fault["word"]:
        return "null"
    if fault["hex"]:
        return str(int(fault["hex"], 16))
    string = fault["string"]
    if not _BAD_ESCAPE.search(string):
        return string
    # One bad escape means that nothing in the string was escaped, "\n" and "\t" included.
    return _LONE_BACKSLASH.sub(lambda m: m[0] if m[0] == r"\"" else "\\\\", string)


def _load_mended(
    content: Content, text: str, decoder: json.JSONDecoder, error: ValueError
) -> tuple[dict[str, Any], int]:
    mended = mend(text)
    for attempt, repairs in ((text, 0), (mended, 1), (mended.rstrip().rstrip(",") + "}", 1)):
        try:
            rest = decoder.decode(attempt)
        except (ValueError, RecursionError):
            continue
        if isinstance(rest, dict):
            return rest, repairs
    raise TraceFileError(f"'{content.path}' is damaged JSON ({error}): export it again")


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position
