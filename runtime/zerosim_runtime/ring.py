"""The last collectives of a rank in a few mapped pages, which outlive even a killed process.

Every collective that a rank issues takes the next slot of its `rank-R.ring`. Whoever watches the ranks
reads from it who waits for what, and whether ranks agree on what comes next. Behind the slots stand the
rank's pid, its last sign of life (long computing without collectives is no hang), and its last word,
for which there is room even on a full disk.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.kinds import PREFIX
from zerosim_runtime.places import Where, content_of, places

EVERYONE: Final = "everyone"
"""The group of all ranks before there is any."""
JOINING: Final = "init_process_group"
"""The unit of the collective by which ranks come together; a barrier of `EVERYONE`."""
_SLOTS: Final = 512
_SLOT: Final = struct.Struct("<qqqqq32s16s72s")
_LIFE: Final = struct.Struct("<qq16s480sq56s")
_EMPTY: Final = -1
_SHORT: Final = {kind.value: prefix for kind, prefix in PREFIX.items()}


@dataclass(frozen=True, slots=True)
class Noted:
    """A collective as its rank noted it: the `seq`-th of its group.

    `ended_ns` 0: not ended yet. `elements` 0: unknown.
    """

    number: int
    seq: int
    issued_ns: int
    ended_ns: int
    elements: int
    group: str
    kind: str
    unit: str

    @property
    def name(self) -> str:
        """As people read it: `AG0`, or its kind where that has no short name."""
        short = _SHORT.get(self.kind)
        return short + self.unit if short is not None else f"{self.kind} {self.unit}".strip()

    @property
    def place(self) -> str:
        """Its name and its number in its group, for a sentence."""
        return f"'{self.name}' (seq {self.seq} of group '{self.group}')"


@dataclass(frozen=True, slots=True)
class Life:
    """Whose ring it is, when that process last said that it moves on (0: never), and its last word.

    `waits_in`: what else than a collective it waits for others in (empty: nothing), for the `seq`-th time.
    """

    pid: int
    beat_ns: int
    status: str
    message: str
    seq: int = 0
    waits_in: str = ""


@dataclass(slots=True)
class Ring:
    """A rank's ring; `number` is how many collectives it has issued."""

    pages: mmap.mmap
    number: int = 0

    def issue(
        self,
        group: str,
        seq: int,
        kind: str,
        unit: str | None,
        now_ns: int,
        elements: int | None = None,
    ) -> int:
        """Note a collective before it is issued; returns its number."""
        number = self.number
        _SLOT.pack_into(
            self.pages,
            number % _SLOTS * _SLOT.size,
            number,
            seq,
            now_ns,
            0,
            elements or 0,
            # struct cuts what is too long.
            group.encode(),
            kind.encode(),
            unit.encode() if unit else b"",
        )
        self.number = number + 1
        return number

    def end(self, number: int, now_ns: int) -> None:
        """Note that it has ended."""
        if number >= self.number - _SLOTS:
            struct.pack_into("<q", self.pages, _place(number) + 24, now_ns)

    def beat(self, now_ns: int) -> None:
        """Say that the rank moves on, though it issues nothing."""
        struct.pack_into("<q", self.pages, _SLOT.size * _SLOTS + 8, now_ns)

    def wait(self, seq: int, what: str) -> None:
        """Say that the rank waits for others, though in no collective; with `what` empty: no longer."""
        place = _SLOT.size * _SLOTS + _LIFE.size - 64
        struct.pack_into("<q56s", self.pages, place, seq, _text(what, 56))

    def say(self, status: str, message: str = "") -> None:
        """Leave a last word."""
        words = (_text(status, 16), _text(message, 480))
        struct.pack_into("<16s480s", self.pages, _SLOT.size * _SLOTS + 16, *words)


def note_joining(directory: Path, rank: int) -> Callable[[], None]:
    """Make a ring that says that the rank waits for the others to come; call what is returned once they have."""
    ring = open_ring(directory, rank)
    number = ring.issue(EVERYONE, 0, "barrier", JOINING, time.perf_counter_ns())
    return lambda: ring.end(number, time.perf_counter_ns())


def open_ring(directory: Path, rank: int) -> Ring:
    """Make the ring of a rank in `directory`. Raises OSError."""
    path = directory / f"rank-{rank}.ring"
    slots = _SLOT.pack(_EMPTY, 0, 0, 0, 0, b"", b"", b"") * _SLOTS
    path.write_bytes(slots + _LIFE.pack(os.getpid(), 0, b"", b"", 0, b""))
    with path.open("r+b") as file:
        return Ring(mmap.mmap(file.fileno(), _SLOT.size * _SLOTS + _LIFE.size))


def read_ring(where: Where, rank: int) -> tuple[Noted, ...]:
    """What a rank noted last, in its order; nothing if it left no ring."""
    content = _content(where, rank)[: _SLOT.size * _SLOTS]
    whole = content[: len(content) // _SLOT.size * _SLOT.size]
    noted = [
        Noted(*slot[:5], *(_word(text) for text in slot[5:]))
        for slot in _SLOT.iter_unpack(whole)
        if slot[0] != _EMPTY
    ]
    return tuple(sorted(noted, key=lambda each: each.number))


def read_life(where: Where, rank: int) -> Life | None:
    """Who that rank is, when it last moved, its last word; None if it left no ring."""
    content = _content(where, rank)[_SLOT.size * _SLOTS :]
    if len(content) != _LIFE.size:
        return None
    pid, beat_ns, status, message, seq, waits_in = _LIFE.unpack(content)
    return Life(pid, beat_ns, _word(status), _word(message), seq, _word(waits_in))


def _content(where: Where, rank: int) -> bytes:
    found = (content_of(place / f"rank-{rank}.ring") for place in places(where))
    return next((content for content in found if content is not None), b"")


def _place(number: int) -> int:
    return number % _SLOTS * _SLOT.size


def _text(word: str, size: int) -> bytes:
    return word.encode()[:size]


def _word(text: bytes) -> str:
    return text.rstrip(b"\0").decode(errors="replace")
