"""The last collectives of a rank in a few mapped pages, which outlive even a killed process.

Every collective that a rank issues takes the next slot of its `rank-R.ring`. Whoever watches the ranks
reads from it who waits for what, and whether ranks agree on what comes next.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SLOTS: Final = 512
_SLOT: Final = struct.Struct("<qqqq32s16s80s")
_EMPTY: Final = -1


@dataclass(frozen=True, slots=True)
class Noted:
    """A collective as its rank noted it: the `seq`-th of its group. `ended_ns` 0: not ended yet."""

    number: int
    seq: int
    issued_ns: int
    ended_ns: int
    group: str
    kind: str
    unit: str


@dataclass(slots=True)
class Ring:
    """A rank's ring; `number` is how many collectives it has issued."""

    pages: mmap.mmap
    number: int = 0

    def issue(self, group: str, seq: int, kind: str, unit: str | None, now_ns: int) -> int:
        """Note a collective before it is issued; returns its number."""
        number = self.number
        texts = (_text(group, 32), _text(kind, 16), _text(unit or "", 80))
        _SLOT.pack_into(self.pages, _place(number), number, seq, now_ns, 0, *texts)
        self.number = number + 1
        return number

    def end(self, number: int, now_ns: int) -> None:
        """Note that it has ended."""
        if number >= self.number - _SLOTS:
            struct.pack_into("<q", self.pages, _place(number) + 24, now_ns)


def open_ring(directory: Path, rank: int) -> Ring:
    """Make the ring of a rank in `directory`. Raises OSError."""
    path = directory / f"rank-{rank}.ring"
    path.write_bytes(_SLOT.pack(_EMPTY, 0, 0, 0, b"", b"", b"") * _SLOTS)
    with path.open("r+b") as file:
        return Ring(mmap.mmap(file.fileno(), _SLOT.size * _SLOTS))


def read_ring(directory: Path, rank: int) -> tuple[Noted, ...]:
    """What a rank noted last, in its order; nothing if it left no ring."""
    try:
        content = (directory / f"rank-{rank}.ring").read_bytes()
    except OSError:
        return ()
    whole = content[: len(content) // _SLOT.size * _SLOT.size]
    noted = [
        Noted(*slot[:4], *(_word(text) for text in slot[4:]))
        for slot in _SLOT.iter_unpack(whole)
        if slot[0] != _EMPTY
    ]
    return tuple(sorted(noted, key=lambda each: each.number))


def _place(number: int) -> int:
    return number % _SLOTS * _SLOT.size


def _text(word: str, size: int) -> bytes:
    return word.encode()[:size]


def _word(text: bytes) -> str:
    return text.rstrip(b"\0").decode(errors="replace")
