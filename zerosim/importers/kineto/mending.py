"""The few batches of a file that are damaged, mended one by one, as if the rest were blank."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content
from zerosim.importers.kineto.stream import UnsoundError
from zerosim.importers.loose_json import Parsed, parse_exactly, parse_json

MAX_DAMAGED: Final = 4
"""A file with more damaged batches is read whole: blanking the rest of it costs a pass each time."""


@dataclass(frozen=True, slots=True)
class Mender:
    """Reads damaged parts of `content`; `told` keeps what was mended in each, with places in the file."""

    content: Content
    exactly: bool
    salvage: bool
    told: list[Parsed] = field(default_factory=list)

    def events(self, start: int, end: int) -> list[Any]:
        """The events that stand from `start` to `end`, without the comma behind them."""
        raw = self.content.raw
        opening = max(raw.rfind(b"[", 0, start), raw.rfind(b",", 0, start))
        text = b"%b[%b]" % (_blank(raw, 0, opening), raw[opening + 1 : end])
        try:
            parsed = self._parsed(text, salvage=False)
        except TraceFileError:  # as part of the whole it may be left out
            raise UnsoundError from None
        if not isinstance(parsed.document, list) or not _whole(parsed, text):
            raise UnsoundError
        self.told.append(parsed)
        return parsed.document

    def frame(self, start: int, end: int, kept: int | None) -> tuple[dict[str, Any], list[Any]]:
        """What stands before `start` and after `end`: the header, and the last events.

        `kept`: how many events stand between; None if this is but a first look. Raises TraceFileError
        where the file may not end so.
        """
        raw = self.content.raw
        text = raw[:start] + _blank(raw, start, end) + raw[end:]
        parsed = self._parsed(text, salvage=self.salvage, kept=kept or 0)
        document = parsed.document
        header = dict(document) if isinstance(document, dict) else {}
        events = header.pop("traceEvents", None) if isinstance(document, dict) else document
        if not isinstance(events, list):
            raise UnsoundError
        if kept is not None:
            self.told.append(parsed)
        return header, events

    def _parsed(self, text: bytes, *, salvage: bool, kept: int = 0) -> Parsed:
        if len(self.told) >= MAX_DAMAGED:
            raise UnsoundError
        parse = parse_exactly if self.exactly else parse_json
        return parse(replace(self.content, raw=text), salvage=salvage, kept=kept)


def _whole(parsed: Parsed, text: bytes) -> bool:
    """Whether the list ended where `text` does: what stands behind an early end would be lost."""
    return parsed.end is None or parsed.end == len(text.decode(errors="surrogateescape"))


def _blank(raw: bytes, start: int, end: int) -> bytes:
    """As many blanks as there are bytes from `start` to `end`, on as many lines, the last as long."""
    last = raw.rfind(b"\n", start, end)
    if last < 0:
        return b" " * (end - start)
    lines, rest = raw.count(b"\n", start, end), end - last - 1
    return b" " * (end - start - lines - rest) + b"\n" * lines + b" " * rest
