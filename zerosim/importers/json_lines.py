"""JSON values one after another, as logs hold them: broken ones are left out and counted, a cut end too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content
from zerosim.importers.loose_json import mend
from zerosim.quality import MAX_PLACES, Place, Quality

MAX_FAULTS: Final = 10_000
_LONGEST: Final = 2**22
"""A record that spans several lines may have this many bytes."""
_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=lambda _: None)
_BARE: Final = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|(?<=[:\[,\s])(?!(?:true|false|null)\b)[A-Za-z_]\w*(?=\s*[,}\]])'
)
"""Words that older plugins of NCCL write without quotes."""
_DEEP: Final = "is nested too deeply for a log: record it again"


@dataclass(slots=True)
class Faults:
    """How many `records` were read, and of these `repaired`; left out: `skipped`, `lost` (the cut end)."""

    records: int = 0
    repaired: int = 0
    skipped: int = 0
    lost: int = 0
    places: list[Place] = field(default_factory=list)

    def leave_out(self, content: Content, byte: int | None, what: str) -> None:
        """Count a record that says nothing that can be read."""
        self.skipped += 1
        self.note(content, byte, what)

    def note(self, content: Content, byte: int | None, what: str) -> None:
        """Keep where something was wrong. Raises TraceFileError if that is nearly everywhere."""
        if self.repaired + self.skipped > MAX_FAULTS:
            raise TraceFileError(
                f"'{content.path}' has over {MAX_FAULTS} broken records: copy or record it again"
            )
        if len(self.places) < MAX_PLACES:
            self.places.append(Place(content.path.name, byte, what))

    def quality(self, content: Content, unknown: Sequence[str]) -> Quality:
        """What there is to say of the file; `unknown`: what its format cannot tell."""
        return Quality(
            events=self.records,
            repaired=self.repaired,
            skipped=self.skipped,
            lost=self.lost,
            warnings=(*content.warnings, *self._said(content.path.name)),
            places=tuple(self.places),
            unknown=tuple(unknown),
        )

    def _said(self, name: str) -> tuple[str, ...]:
        notes = (
            (self.repaired, "{} records were mended"),
            (self.skipped, "{} records that cannot be read were left out"),
            (
                self.lost,
                "the last record is cut off: the writer was stopped, and what followed is lost",
            ),
        )
        return tuple(f"'{name}': {text.format(count)}" for count, text in notes if count)


def read_records(content: Content, faults: Faults) -> Iterator[dict[str, Any]]:
    """The objects of a log, one a line or over several lines; numbers with a fraction are Decimals.

    Raises TraceFileError for a log that is nested too deeply or broken nearly everywhere.
    """
    raw = content.whole
    position = 3 if raw[:3] == b"\xef\xbb\xbf" else 0
    while position < len(raw):
        end = raw.find(b"\n", position) + 1 or len(raw)
        line = raw[position:end].strip(b" \t\r\n,\0")
        if line in (b"", b"[", b"]"):
            position = end
            continue
        start = position
        value, position = _record(content, position, line, end, faults)
        for found in value:
            if isinstance(found, dict):
                faults.records += 1
                yield found
            else:
                faults.leave_out(content, start, "what is no record: left out")


def _record(
    content: Content, position: int, line: bytes, end: int, faults: Faults
) -> tuple[list[Any], int]:
    """The records that begin at `position` (none if they cannot be read), and where to read on."""
    try:
        return _listed(_DECODER.decode(line.decode())), end
    except RecursionError:
        raise TraceFileError(f"'{content.path}' {_DEEP}") from None
    except ValueError:
        text = line.decode(errors="replace")
    try:
        value = _DECODER.decode(_quoted(mend(text)))
    except RecursionError:
        raise TraceFileError(f"'{content.path}' {_DEEP}") from None
    except ValueError:
        return _longer(content, position, end, faults)
    faults.repaired += 1
    faults.note(content, position, "a record that was mended")
    return _listed(value), end


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 - whatever a file holds
    return value if isinstance(value, list) else [value]


def _longer(content: Content, position: int, end: int, faults: Faults) -> tuple[list[Any], int]:
    """A record of several lines, or one that another follows in its line; else it is broken."""
    start = content.whole.find(b"{", position, end)
    window = content.whole[max(start, position) : position + _LONGEST]
    text = window.decode(errors="surrogateescape")
    try:
        value, length = _DECODER.raw_decode(text)
    except RecursionError:
        raise TraceFileError(f"'{content.path}' {_DEEP}") from None
    except json.JSONDecodeError as error:
        reached = max(start, position) + len(text[: error.pos].encode(errors="surrogateescape"))
    else:
        used = len(text[:length].encode(errors="surrogateescape"))
        return _listed(value), max(start, position) + used
    following = content.whole.find(b"\n", reached) + 1
    if not following and content.whole[len(content.whole) - 1 :] != b"\n":
        faults.lost += 1
        faults.note(content, position, "the last record is cut off")
        return [], len(content.whole)
    faults.leave_out(content, position, "a record that cannot be read: left out")
    return [], max(end, following)


def _quoted(text: str) -> str:
    return _BARE.sub(lambda m: m[0] if m[0].startswith('"') else f'"{m[0]}"', text)


def section(record: dict[str, Any], key: str) -> dict[str, Any]:
    """The object at `key` of `record`, empty if there is none."""
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def plain(text: object) -> str:
    """`text` as something that can be stored: halves of characters replaced."""
    return str(text).encode(errors="replace").decode()
