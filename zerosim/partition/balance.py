"""How even a partition is: elements by rank, padding, empty ranks, the largest load over the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerosim.partition.buffers import Buffer, Int, Partition


@dataclass(frozen=True, slots=True)
class Balance:
    """Elements by rank: those it really owns (`loads`), and those it stores (`stored`, padded)."""

    loads: tuple[int, ...]
    stored: tuple[int, ...]

    @property
    def padding(self) -> int:
        """Elements that are stored and travel but belong to no parameter."""
        return sum(self.stored) - sum(self.loads)

    @property
    def waste(self) -> float:
        """Padding per real element: what it adds to the bytes stored and moved."""
        return self.padding / sum(self.loads) if sum(self.loads) else 0.0

    @property
    def max_over_mean(self) -> float:
        """The largest load over the mean; 1.0 is even. What waits for all waits for the largest."""
        return max(self.loads) * len(self.loads) / sum(self.loads) if sum(self.loads) else 1.0

    @property
    def empty_ranks(self) -> int:
        """Ranks that own no element at all: no optimizer states, nothing to update."""
        return self.loads.count(0)


def balance(partition: Partition) -> Balance:
    """Count what each rank owns and stores."""
    loads = np.zeros(partition.n_ranks, np.int64)
    stored = np.zeros(partition.n_ranks, np.int64)
    for buffer in partition.buffers:
        bounds = buffer.bounds
        loads += np.diff(_real_before(buffer, bounds))
        stored += np.diff(bounds)
    return Balance(tuple(loads.tolist()), tuple(stored.tolist()))


def _real_before(buffer: Buffer, positions: Int) -> Int:
    """How many elements of parameters lie before each position of a buffer (none overlap)."""
    if not buffer.members:
        return np.zeros_like(positions)
    starts = np.array([m.start for m in buffer.members], np.int64)
    numels = np.array([m.numel for m in buffer.members], np.int64)
    before = np.concatenate(([0], np.cumsum(numels)[:-1]))
    within = np.searchsorted(starts, positions, side="right") - 1
    inside: Int = np.minimum(positions - starts[within], numels[within])
    return np.asarray(before[within] + inside, np.int64)
