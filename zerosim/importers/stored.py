"""The bytes of a file that is too big to be held: read where they lie, a piece at a time."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from zerosim.errors import TraceFileError

_CHUNK: Final = 2**20
_NEAR: Final = 2**25
"""A read that is this far ahead of the last only looks what comes."""
_OVERLAP: Final = 2**12
"""What `matches` looks for is shorter than this."""


class Stored:
    """A file's bytes, with as much of the ways of `bytes` as readers of big files need.

    The last piece that was read is kept; `file` is closed with it. `watch` hears what share of it lies
    before a piece that is asked for. Raises TraceFileError where the file has become shorter.
    """

    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self.path, self.size = path, size
        self.file = file
        self.watch: Callable[[float], None] | None = None
        self._told = 0
        self._at, self._kept = 0, b""
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self.size)
        if self.watch and start <= self._told + _NEAR:
            self._told = start
            self.watch(start / self.size)
        if stop - start > _CHUNK:
            return self._read(start, stop)
        if not self._at <= start <= stop <= self._at + len(self._kept):
            self._keep(start)
        return self._kept[start - self._at : stop - self._at]

    def find(self, wanted: bytes, start: int = 0, end: int | None = None) -> int:
        """Where `wanted` stands first between `start` and `end`; -1 for nowhere."""
        end = self.size if end is None else min(end, self.size)
        while start + len(wanted) <= end:
            if not self._at <= start < self._at + len(self._kept) - len(wanted):
                self._keep(start)
            found = self._kept.find(wanted, start - self._at, end - self._at)
            if found >= 0:
                return self._at + found
            start = self._at + len(self._kept) - len(wanted) + 1
        return -1

    def _keep(self, start: int) -> None:
        self._at, self._kept = start, self._read(start, min(start + _CHUNK, self.size))

    def _read(self, start: int, stop: int) -> bytes:
        pieces, left = [], max(stop - start, 0)
        self.file.seek(start)
        while left and (piece := self.file.read(left)):
            pieces.append(piece)
            left -= len(piece)
        if left:
            raise TraceFileError(
                f"'{self.path}' has become shorter while it was read: wait until it is written"
            )
        return b"".join(pieces)


Source = bytes | Stored


def pieces(source: Source, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """What stands from `start` to `end`, a piece at a time."""
    end = len(source) if end is None else end
    for at in range(start, end, _CHUNK):
        yield source[at : min(at + _CHUNK, end)]


def matches(source: Source, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Where `pattern` (which is short) begins, in order."""
    for at in range(0, len(source), _CHUNK):
        for match in pattern.finditer(source[at : at + _CHUNK + _OVERLAP]):
            if match.start() < _CHUNK:
                yield at + match.start()
