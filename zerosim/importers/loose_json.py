"""JSON as profilers really write it: parsed fast when it is sound, mended event by event when not."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import orjson

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content

_EVENTS: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_ARRAY: Final = re.compile(r"\s*\[")
_BETWEEN: Final = re.compile(r"[\s,]*")
_NEXT: Final = re.compile(
    r'\}(?=\s*,?\s*\{\s*"(?:ph|name|cat|pid|tid|ts|id|args|s)"\s*:|\s*\]\s*(?:,\s*"|\}|$))'
)
_FAULT: Final = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<word>(?<=[:\[,\s])(?:N/A|[-+]?nan(?:\(\w*\))?|[-+]?inf(?:inity)?|None|undefined)(?=\s*[,}\]]))"
    r"|(?P<hex>(?<=[:\[,\s])0x[0-9a-f]+(?=\s*[,}\]]))"
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


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document, and how many of its events were mended or had to be left out."""

    document: Any
    repaired: int = 0
    skipped: int = 0
    warnings: tuple[str, ...] = ()


def parse_json(content: Content) -> Parsed:
    """The document in `content`; numbers with a fraction come as floats.

    Raises TraceFileError, with line and column, for what cannot be mended.
    """
    raw = content.raw
    try:
        return Parsed(orjson.loads(raw))
    except orjson.JSONDecodeError:
        text, warnings = _decode(content)
        return _tolerant(content, text, warnings, float)


def parse_exactly(content: Content) -> Parsed:
    """As `parse_json`, but slower: numbers with a fraction come as Decimal, digit by digit.

    19-digit microseconds with three decimals do not fit a float.
    """
    text, warnings = _decode(content)
    return _tolerant(content, text, warnings, Decimal)


def _decode(content: Content) -> tuple[str, tuple[str, ...]]:
    raw, name = content.raw, content.path.name
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", errors="replace"), (f"'{name}' is UTF-16, not UTF-8",)
    try:
        return raw.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        text = raw.decode("utf-8-sig", errors="replace")
        return text, (f"'{name}' is not UTF-8 (byte {error.start}): odd characters replaced",)


def _tolerant(
    content: Content, text: str, warnings: tuple[str, ...], number: type[float | Decimal]
) -> Parsed:
    # Halves of characters are JSON but no text: nothing could store them.
    text = _HALF_CHARACTER.sub(r"\\ufffd", text)
    decoder = json.JSONDecoder(strict=False, parse_float=number, parse_constant=lambda _: None)
    try:
        document = decoder.decode(text)
    except RecursionError:
        raise TraceFileError(f"'{content.path}' is nested too deeply: it is no trace") from None
    except ValueError as error:
        return _piecewise(content, text, warnings, decoder, error)
    if not warnings and number is float and not content.raw.startswith(b"\xef\xbb\xbf"):
        warnings = (
            f"'{content.path.name}' has NaN, control or half characters: replaced or kept as text",
        )
        return Parsed(document, repaired=1, warnings=warnings)
    return Parsed(document, repaired=len(warnings), warnings=warnings)


def _piecewise(
    content: Content,
    text: str,
    warnings: tuple[str, ...],
    decoder: json.JSONDecoder,
    error: ValueError,
) -> Parsed:
    bare = _ARRAY.match(text)
    opening = bare or _EVENTS.search(text)
    if opening is None:
        raise TraceFileError(f"'{content.path}' is not JSON ({error}): export it again")
    reader = _EventReader(content, text, decoder)
    end = reader.read(opening.end())
    if reader.closed and not bare:
        rest, mended = _load_mended(
            content, text[: opening.end()] + text[end - 1 :], decoder, error
        )
        document: Any = {**rest, "traceEvents": reader.events}
        reader.repaired += mended
    elif bare:
        # The format allows a missing "]": writers that may be killed never close the list.
        document = reader.events
    else:
        raise _ends_early(content, len(text.encode()))
    said = warnings + reader.warnings(content.path.name)
    return Parsed(document, reader.repaired, len(reader.lost), said)


class _EventReader:
    """Reads the events of a damaged list one by one; a broken one is mended or left out."""

    def __init__(self, content: Content, text: str, decoder: json.JSONDecoder) -> None:
        self.content, self.text, self.decoder = content, text, decoder
        self.events: list[Any] = []
        self.lost: list[int] = []
        self.repaired = 0
        self.closed = False

    def read(self, position: int) -> int:
        """Read from `position` to the end of the list; returns where it ended."""
        while True:
            position = _end_of(_BETWEEN, self.text, position)
            if position >= len(self.text):
                return position
            if self.text[position] == "]":
                self.closed = True
                return position + 1
            position = self._event(position)

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
            raise _ends_early(self.content, len(self.text[:position].encode()))
        try:
            self.events.append(self.decoder.decode(mend(self.text[position : found.end()])))
            self.repaired += 1
        except (ValueError, RecursionError):
            self.lost.append(position)
        return found.end()

    def warnings(self, name: str) -> tuple[str, ...]:
        """What to say of the mended and lost events."""
        said = [f"'{name}': {self.repaired} events were mended"] if self.repaired else []
        if self.lost:
            where = _line_column(self.text, self.lost[0])
            said.append(f"'{name}': {len(self.lost)} events left out, the first at {where}")
        return tuple(said)


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


def _ends_early(content: Content, offset: int) -> TraceFileError:
    return TraceFileError(
        f"'{content.path}' ends inside an event at byte {offset} (interrupted export?): export it again"
    )


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _line_column(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"
