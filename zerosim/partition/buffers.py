"""How a partition is written down: parameters laid into buffers, and the buffers cut by rank.

# Note [A partition is buffers cut by rank]
Every style lays parameters one after the other into buffers and cuts each buffer by rank. Styles
differ in what shares a buffer (a parameter, a unit, everything), where parameters start, and how
long a rank's piece is. What a piece holds beyond its parameters' elements is padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerosim.workload import Parameter, Unit

Int = NDArray[np.int64]


def padded(numel: int, n_ranks: int) -> int:
    """`numel` rounded up to a multiple of `n_ranks` elements."""
    return -(-numel // n_ranks) * n_ranks


@dataclass(frozen=True, slots=True)
class Member:
    """A parameter (its place among all parameters, in order) laid into a buffer from `start` on."""

    parameter: int
    start: int
    numel: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """Parameters laid out together. `pieces`: run lengths (ranks, elements each stores), by rank."""

    members: tuple[Member, ...]
    pieces: tuple[tuple[int, int], ...]

    @property
    def elements(self) -> int:
        """Elements of the whole buffer, padding included."""
        return sum(n_ranks * each for n_ranks, each in self.pieces)

    @property
    def bounds(self) -> Int:
        """Where the pieces begin and end: rank r stores elements bounds[r] to bounds[r + 1]."""
        counts, each = zip(*self.pieces, strict=True)
        return np.concatenate(([0], np.cumsum(np.repeat(np.array(each, np.int64), counts))))


@dataclass(frozen=True, slots=True)
class Partition:
    """The buffers of a model on `n_ranks` ranks, in the order of the style."""

    n_ranks: int
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements `start` to `stop` of a parameter, owned by one rank."""

    parameter: int
    start: int
    stop: int


def pieces(partition: Partition, rank: int) -> tuple[Piece, ...]:
    """The elements that `rank` really owns, buffer by buffer, without padding."""
    found: list[Piece] = []
    for buffer in partition.buffers:
        first, last = (int(b) for b in buffer.bounds[rank : rank + 2])
        for member in buffer.members:
            start = max(first - member.start, 0)
            stop = min(last - member.start, member.numel)
            if start < stop:
                found.append(Piece(member.parameter, start, stop))
    return tuple(found)


def parameters_of(units: Sequence[Unit]) -> list[Parameter]:
    """All parameters in order: a Member's and a Piece's `parameter` is the place in this list."""
    return [parameter for unit in units for parameter in unit.parameters]


def laid(
    parameters: Sequence[Parameter], order: Iterable[int], align: int = 1
) -> tuple[Member, ...]:
    """Parameters one after the other, each start a multiple of `align`."""
    members, end = [], 0
    for i in order:
        start = padded(end, align)
        members.append(Member(i, start, parameters[i].numel))
        end = start + parameters[i].numel
    return tuple(members)


def cut(members: tuple[Member, ...], n_ranks: int, multiple: int = 1) -> Buffer:
    """A buffer whose ranks all store the same, a multiple of `multiple` elements."""
    end = members[-1].start + members[-1].numel if members else 0
    return Buffer(members, ((n_ranks, padded(end, n_ranks * multiple) // n_ranks),))
