"""PyTorch's CUDA caching allocator: what it reserves for what a program allocates.

The rules are those of c10/cuda/CUDACachingAllocator.cpp at its defaults (torch 2.13, constants in
c10/core/AllocatorConfig.h; expandable segments off): sizes are rounded to 512 B; up to 1 MiB comes out
of segments of 2 MiB, up to 10 MiB out of segments of 20 MiB, more gets its own, rounded to 2 MiB; the
smallest free block that is large enough is taken, and split if enough is left; blocks belong to the
stream that they were first taken on; segments are only given back when the device is full.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

ROUND: Final = 512
SMALL: Final = 2**20
SMALL_SEGMENT: Final = 2 * 2**20
LARGE_SEGMENT: Final = 20 * 2**20
OWN_SEGMENT: Final = 10 * 2**20
OWN_ROUND: Final = 2 * 2**20


def block_bytes(nbytes: int) -> int:
    """What a request of `nbytes` takes out of a segment."""
    return max(ROUND, -(-nbytes // ROUND) * ROUND)


def segment_bytes(nbytes: int) -> int:
    """The segment that is reserved for a request of `nbytes` if no free block will do."""
    size = block_bytes(nbytes)
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < OWN_SEGMENT:
        return LARGE_SEGMENT
    return -(-size // OWN_ROUND) * OWN_ROUND


@dataclass(slots=True, eq=False)
class Block:
    """A piece of a segment. `before` and `after` are its neighbours in the segment."""

    stream: str
    small: bool
    address: int
    size: int
    free: bool = False
    before: Block | None = None
    after: Block | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.before is None and self.after is None


@dataclass(slots=True)
class CachingAllocator:
    """Reserved and free memory of one device.

    `limit_bytes`: the device's memory; when a segment would exceed it, all segments that are free are
    given back (`n_retries`) before more is reserved. `waiting`: blocks of a stream that an op of
    another stream dropped, with that op.
    """

    limit_bytes: int | None = None
    reserved_bytes: int = 0
    n_retries: int = 0
    pools: dict[tuple[str, bool], list[tuple[int, int]]] = field(default_factory=dict)
    free: dict[int, Block] = field(default_factory=dict)
    waiting: dict[str, list[tuple[Block, int]]] = field(default_factory=dict)
    next_address: int = 0

    def take(self, nbytes: int, stream: str, passed: Callable[[int], bool]) -> Block:
        """A block for `nbytes` on `stream`. `passed`: whether a dropping op of another is over."""
        self._reclaim(stream, passed)
        size, small = block_bytes(nbytes), block_bytes(nbytes) <= SMALL
        pool = self.pools.setdefault((stream, small), [])
        at = bisect_left(pool, (size, -1))
        if at < len(pool):
            block = self.free.pop(pool.pop(at)[1])
            block.free = False
        else:
            block = self._segment(segment_bytes(nbytes), stream, small=small)
        self._split(block, size)
        return block

    def drop(self, block: Block) -> None:
        """Make a block free, and one with free neighbours."""
        for other in (block.before, block.after):
            if other is not None and other.free:
                self._unlist(other)
                _join(block, other)
        block.free = True
        self.free[block.address] = block
        insort(self.pools.setdefault((block.stream, block.small), []), (block.size, block.address))

    def drop_after(self, block: Block, op: int) -> None:
        """Make a block free once `op`, of another stream, is over."""
        self.waiting.setdefault(block.stream, []).append((block, op))

    def _reclaim(self, stream: str, passed: Callable[[int], bool]) -> None:
        waiting = self.waiting.get(stream)
        if not waiting:
            return
        self.waiting[stream] = []
        for block, op in waiting:
            if passed(op):
                self.drop(block)
            else:
                self.waiting[stream].append((block, op))

    def _segment(self, size: int, stream: str, *, small: bool) -> Block:
        if self.limit_bytes is not None and self.reserved_bytes + size > self.limit_bytes:
            self._give_back()
        self.reserved_bytes += size
        block = Block(stream, small, self.next_address, size)
        self.next_address += size
        return block

    def _give_back(self) -> None:
        """As after a failed cudaMalloc: wait for all streams, then give back every free segment."""
        self.n_retries += 1
        for waiting in self.waiting.values():
            for block, _ in waiting:
                self.drop(block)
            waiting.clear()
        for block in [block for block in self.free.values() if block.whole]:
            self._unlist(block)
            self.reserved_bytes -= block.size

    def _split(self, block: Block, size: int) -> None:
        left = block.size - size
        if left >= (ROUND if block.small else SMALL + ROUND):
            rest = Block(block.stream, block.small, block.address + size, left)
            rest.before, rest.after = block, block.after
            if block.after is not None:
                block.after.before = rest
            block.after, block.size = rest, size
            self.drop(rest)

    def _unlist(self, block: Block) -> None:
        pool = self.pools[block.stream, block.small]
        del pool[bisect_left(pool, (block.size, block.address))]
        del self.free[block.address]


def _join(block: Block, other: Block) -> None:
    """Let `block` take in a free neighbour."""
    if block.after is other:
        block.after = other.after
        if other.after is not None:
            other.after.before = block
    else:
        block.address, block.before = other.address, other.before
        if other.before is not None:
            other.before.after = block
    block.size += other.size
