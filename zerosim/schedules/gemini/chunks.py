"""Gemini's chunks: how large they are, and which parameters share one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zerosim.errors import ScenarioError
from zerosim.partition import padded
from zerosim.schedules.gemini.options import GeminiOptions

_MEBI: Final = 2**20
_INTERVAL: Final = 1024
_MAX_TRIED: Final = 2**24
"""Five hundred times what the search tries by default, and a quarter of a gigabyte."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Parameters gathered, given up and reduced together; `elements` include what is unused."""

    index: int
    elements: int
    parameters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of a model. With `keep_gathered` (a small model) no rank ever gives one up."""

    chunks: tuple[Chunk, ...]
    keep_gathered: bool

    def numbered(self, order: Sequence[int]) -> Chunks:
        """The same chunks, of parameters `order[0]`, `order[1]`, … instead of 0, 1, …."""
        named = (
            replace(chunk, parameters=tuple(order[i] for i in chunk.parameters))
            for chunk in self.chunks
        )
        return replace(self, chunks=tuple(named))


def chunked(numels: Sequence[int], n_ranks: int, options: GeminiOptions) -> Chunks:
    """Put parameters into chunks, in order; one that does not fit opens the next chunk.

    A parameter larger than a chunk has one of its own, padded to the ranks (ChunkManager).
    """
    keep = options.chunk_size is None and sum(numels) < round(options.min_chunk_size_m * _MEBI)
    if keep:
        return Chunks((Chunk(0, sum(numels), tuple(range(len(numels)))),), keep_gathered=True)
    size = padded(options.chunk_size or searched(numels, options), n_ranks)
    sizes: list[int] = []
    members: list[list[int]] = []
    used = 0
    for i, numel in enumerate(numels):
        if not sizes or used + numel > sizes[-1]:
            sizes.append(size if numel <= size else padded(numel, n_ranks))
            members.append([])
            used = 0
        members[-1].append(i)
        used += numel
    made = zip(sizes, members, strict=True)
    return Chunks(tuple(Chunk(i, n, tuple(held)) for i, (n, held) in enumerate(made)), False)


def searched(numels: Sequence[int], options: GeminiOptions) -> int:
    """The chunk size that leaves the fewest elements unused (search_chunk_configuration).

    Parameters above mean + 3 standard deviations are left out of the search; the first of the best
    sizes is taken.
    """
    interval = options.hidden_dim or _INTERVAL
    tried = options.search_range_m * _MEBI // interval
    if tried > _MAX_TRIED:
        raise ScenarioError(
            f"schedule.search_range_m is {options.search_range_m}, {tried} sizes to try with one "
            f"every {interval} elements: lower it, or raise hidden_dim, to at most {_MAX_TRIED}"
        )
    every = np.asarray(numels, np.int64)
    common = every[every <= np.mean(every) + 3 * np.std(every)]
    smallest = padded(max(round(options.min_chunk_size_m * _MEBI), int(common.max())), interval)
    sizes = np.arange(smallest, smallest + options.search_range_m * _MEBI + 1, interval)
    left, unused = np.zeros_like(sizes), np.zeros_like(sizes)
    for numel in common:
        opens = numel > left
        unused += np.where(opens, left, 0)
        left = np.where(opens, sizes, left) - numel
    return int(sizes[np.argmin(unused + left)])
