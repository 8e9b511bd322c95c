"""The few batches of a file that are damaged, mended one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.content import HELD_BYTES, Content
from zerosim.importers.kineto.stream import UnsoundError
from zerosim.importers.loose_json import Parsed, parse_exactly, parse_json

MAX_DAMAGED: Final = 4
"""A file with more damaged batches is read whole, if it can be: that tells better what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Mender:
    """Reads damaged parts of `content`; `told` keeps what was mended in each, with places in the file."""

    content: Content
    exactly: bool
    salvage: bool
    told: list[Parsed] = field(default_factory=list)

    def events(self, start: int, end: int) -> list[Any]:
        """The events that stand from `start` to `end`, without the comma behind them."""
        text = b"[%b]" % self.content.whole[start:end]
        try:
            parsed = self._parsed(text, ((0, start - 1),), salvage=False)
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
        whole = self.content.whole
        text = whole[:start] + whole[end : len(whole)]
        cuts = ((0, 0), (start, end - start))
        parsed = self._parsed(text, cuts, salvage=self.salvage, kept=kept or 0)
        document = parsed.document
        header = dict(document) if isinstance(document, dict) else {}
        events = header.pop("traceEvents", None) if isinstance(document, dict) else document
        if not isinstance(events, list):
            raise UnsoundError
        if kept is not None:
            self.told.append(parsed)
        return header, events

    def _parsed(
        self, text: bytes, cuts: tuple[tuple[int, int], ...], *, salvage: bool, kept: int = 0
    ) -> Parsed:
        whole = self.content.whole
        if len(self.told) >= MAX_DAMAGED and len(whole) <= HELD_BYTES:
            raise UnsoundError
        parse = parse_exactly if self.exactly else parse_json
        piece = Content(self.content.path, text, cuts=cuts, origin=whole)
        return parse(piece, salvage=salvage, kept=kept)


def _whole(parsed: Parsed, text: bytes) -> bool:
    """Whether the list ended where `text` does: what stands behind an early end would be lost."""
    return parsed.end is None or parsed.end == len(text.decode(errors="surrogateescape"))
