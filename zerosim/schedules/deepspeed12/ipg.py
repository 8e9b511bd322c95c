"""DeepSpeed's gradient buckets: filled up to a size, then reduced slice by slice to who owns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zerosim.kinds import Kind
from zerosim.partition.buffers import Buffer, Member, cut, padded
from zerosim.schedules.deepspeed12.slots import Slot

ALIGNMENT: Final = 2
"""Elements to a multiple of which each rank's slice of the flat parameters is padded."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients reduced together, in the order in which they come; a `large` one comes alone."""

    index: int
    slots: tuple[Slot, ...]
    large: bool

    @property
    def elements(self) -> int:
        """Elements of all its gradients."""
        return sum(slot.numel for slot in self.slots)


@dataclass(frozen=True, slots=True)
class Reduction:
    """One collective of a bucket; `flattened`: its slices are copied into a buffer of their own."""

    kind: Kind
    elements: int
    flattened: bool


def cut_into_buckets(order: Iterable[Slot], size: int) -> tuple[Bucket, ...]:
    """A bucket closes before a gradient that would make it larger than `size` elements.

    One that is larger itself is a bucket of its own (`reduce_independent_p_g_buckets_and_remove_grads`).
    """
    closed: list[Bucket] = []
    held: list[Slot] = []
    elements = 0
    for slot in order:
        if held and elements + slot.numel > size:
            closed.append(_bucket(len(closed), held, size))
            held, elements = [], 0
        held.append(slot)
        elements += slot.numel
    if held:
        closed.append(_bucket(len(closed), held, size))
    return tuple(closed)


def _bucket(index: int, slots: Sequence[Slot], size: int) -> Bucket:
    return Bucket(index, tuple(slots), slots[0].numel > size)


def flat(slots: Sequence[Slot], n_ranks: int, *, dealt: bool, align: int) -> Buffer:
    """All parameters one after the other, cut evenly; `dealt` deals them to the ranks first.

    `align`: elements to a multiple of which each parameter starts.
    """
    order = sorted(slots, key=lambda slot: slot.index % n_ranks if dealt else 0)
    members: list[Member] = []
    end = 0
    for slot in order:
        start = padded(end, align)
        members.append(Member(slot.index, start, slot.numel))
        end = start + slot.numel
    return cut(tuple(members), n_ranks, ALIGNMENT)


def owners(buffer: Buffer) -> dict[int, tuple[tuple[int, int], ...]]:
    """By parameter: (rank, elements) of its slices, in order."""
    each = buffer.pieces[0][1]
    return {member.parameter: tuple(_slices(member, each)) for member in buffer.members}


def _slices(member: Member, each: int) -> Iterable[tuple[int, int]]:
    position, stop = member.start, member.start + member.numel
    while position < stop:
        rank = position // each
        end = min(stop, (rank + 1) * each)
        yield rank, end - position
        position = end


def all_reduced(slices: Sequence[tuple[int, int]], size: int) -> tuple[Reduction, ...]:
    """All-reduces of slices taken together until they pass `size` elements (`allreduce_and_scatter`)."""
    return tuple(
        Reduction(Kind.ALL_REDUCE, sum(n for _, n in group), len(group) > 1)
        for group in _groups(merged(slices), size)
    )


def reduced_to_owners(slices: Sequence[tuple[int, int]], size: int) -> tuple[Reduction, ...]:
    """One reduction for each rank that owns a slice, in the order in which ranks first appear."""
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for rank, elements in merged(slices):
        by_rank.setdefault(rank, []).append((rank, elements))
    return tuple(
        Reduction(Kind.REDUCE, sum(n for _, n in group), len(group) > 1)
        for of_rank in by_rank.values()
        for group in _groups(of_rank, size)
    )


def merged(slices: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours of one owner are one slice (`average_tensor`)."""
    joined: list[tuple[int, int]] = []
    for rank, elements in slices:
        if joined and joined[-1][0] == rank:
            joined[-1] = (rank, joined[-1][1] + elements)
        else:
            joined.append((rank, elements))
    return joined


def _groups(slices: Sequence[tuple[int, int]], size: int) -> Iterable[list[tuple[int, int]]]:
    group: list[tuple[int, int]] = []
    for one in slices:
        group.append(one)
        if sum(n for _, n in group) > size:
            yield group
            group = []
    if group:
        yield group
