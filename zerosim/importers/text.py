"""The text of a file, whatever its encoding, and the byte at which each of its characters lay."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zerosim.importers.content import Content
from zerosim.importers.stored import pieces
from zerosim.quality import Place

_MARK: Final = b"\xef\xbb\xbf"
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff")
_ESCAPED: Final = re.compile("[\udc80-\udcff]")
_LINE_BYTES: Final = 2**20
_LOST: Final = 2
"""The replacement character takes three bytes where the one that it replaces took one."""


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text; `marked`: it began with a byte order mark, which is no part of it.

    `replaced`: where characters stand for bytes that are no UTF-8, ascending.
    """

    content: Content
    text: str
    marked: bool = False
    wide: bool = False
    replaced: Sequence[int] = ()
    warnings: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()

    def byte(self, position: int) -> int:
        """The byte of the file at which the character at `position` begins."""
        before = self.text[:position]
        if self.wide:
            at = len(before.encode("utf-16-le", "replace")) + len(_WIDE[0])
        else:
            start = len(_MARK) if self.marked else 0
            replaced = bisect_left(self.replaced, position)
            at = start + len(before.encode("utf-8", "replace")) - _LOST * replaced
        return self.content.byte(at)

    def line_column(self, position: int) -> str:
        """The line and column of the file at which the character at `position` lies, from 1."""
        if self.content.cuts:
            byte = self.byte(position)
            newlines = sum(piece.count(b"\n") for piece in pieces(self.content.origin, 0, byte))
            last = self.content.origin[max(0, byte - _LINE_BYTES) : byte]
            before = last.rsplit(b"\n", 1)[-1].decode(errors="replace")
            return f"line {newlines + 1}, column {len(before) + 1}"
        newlines = self.text.count("\n", 0, position)
        return f"line {newlines + 1}, column {position - self.text.rfind(chr(10), 0, position)}"


def read_text(content: Content) -> Text:
    """The text of `content`: UTF-8, else UTF-16 if it says so, else UTF-8 with odd bytes replaced."""
    raw, name = content.raw, content.path.name
    if raw[:2] in _WIDE:
        what = "UTF-16, not UTF-8"
        text = raw.decode("utf-16", errors="replace")
        return Text(
            content, text, True, True, (), (f"'{name}' is {what}",), (Place(name, 0, what),)
        )
    marked = raw.startswith(_MARK)
    try:
        return Text(content, raw.decode("utf-8-sig"), marked)
    except UnicodeDecodeError as error:
        first = content.byte(error.start + (len(_MARK) if marked else 0))
    text = raw.decode("utf-8-sig", errors="surrogateescape")
    replaced = array("q", (match.start() for match in _ESCAPED.finditer(text)))
    warning = f"'{name}' is not UTF-8 (byte {first}): odd characters replaced"
    place = Place(name, first, "not UTF-8: odd characters replaced")
    text = _ESCAPED.sub("\ufffd", text)
    return Text(content, text, marked, False, replaced, (warning,), (place,))
