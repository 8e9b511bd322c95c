"""Which slice of a thread encloses a moment: the innermost one of a stack of nested slices."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from zerosim.importers.kineto.events import Slice, Thread


@dataclass(frozen=True, slots=True)
class Nesting:
    """For each thread, the moments when the innermost slice changes, and what it then is."""

    changes: dict[Thread, tuple[list[int], list[Slice | None]]]

    def innermost(self, thread: Thread, moment: int) -> Slice | None:
        """The innermost slice of `thread` that holds `moment`; None outside all of them."""
        moments, slices = self.changes.get(thread, ([], []))
        index = bisect_right(moments, moment) - 1
        return slices[index] if index >= 0 else None


def nest(slices: Iterable[Slice]) -> Nesting:
    """The nesting of `slices`, thread by thread."""
    threads: dict[Thread, list[Slice]] = defaultdict(list)
    for piece in slices:
        threads[piece.thread].append(piece)
    return Nesting({thread: _changes(pieces) for thread, pieces in threads.items()})


def _changes(pieces: list[Slice]) -> tuple[list[int], list[Slice | None]]:
    moments: list[int] = []
    innermost: list[Slice | None] = []
    stack: list[Slice] = []

    def close(until: int) -> None:
        while stack and stack[-1].end <= until:
            ended = stack.pop()
            moments.append(max(ended.end, moments[-1]))
            innermost.append(stack[-1] if stack else None)

    for piece in sorted(pieces, key=lambda s: (s.start, -s.end)):
        close(piece.start)
        stack.append(piece)
        moments.append(piece.start)
        innermost.append(piece)
    if stack:
        close(max(piece.end for piece in stack))
    return moments, innermost
