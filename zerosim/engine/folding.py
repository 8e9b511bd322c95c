"""Folding: ranks that do the same at the same time are one class; exact, by colour refinement.

Ranks start in classes of equal speed, links, work and memory; a class is split as long as two of its
ranks see different classes in one of their process groups. What is left is the coarsest equitable
partition, on which a collective of barrier type gives every member of a class the same times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerosim.engine.program import Int, Program, every_rank, instance
from zerosim.engine.variation import Variation, factors_of, shares_left


@dataclass(frozen=True, slots=True)
class Folded:
    """`class_of` each rank, a representative of each class, and per axis the group of each class.

    Two classes have the same number in `group_of[axis]` when their ranks meet in one group.
    """

    class_of: Int
    representatives: tuple[int, ...]
    group_of: tuple[Int, ...]

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.representatives)


def fold(program: Program, variation: Variation) -> Folded:
    """The classes of equal ranks; every rank its own class where each may differ."""
    n = program.n_ranks
    shares = shares_left(variation, n)
    differ = bool(variation.speed or shares or program.uneven)
    uneven = differ and any(op.ring is not None for op in program.ops)
    if variation.every_rank_differs or uneven or _groups_differ(program, variation):
        return unfolded(program)
    if not variation.speed and not shares and not program.uneven:
        one = np.zeros(1, dtype=np.int64)
        return Folded(np.zeros(n, dtype=np.int64), (0,), tuple(one for _ in program.axes))
    class_of = np.zeros(n, dtype=np.int64)
    uneven_in = (*shares.values(), *(every_rank(by_rank) for by_rank in program.uneven))
    for values in (factors_of(variation.speed, n), *uneven_in):
        kinds = np.unique(values, return_inverse=True)[1].astype(np.int64)
        class_of = np.unique(_pair(class_of, kinds), return_inverse=True)[1].astype(np.int64)
    groups = [instance(axis, n) for axis in program.axes]
    class_of = _refined(class_of, groups)
    return _folded(class_of, groups)


def _groups_differ(program: Program, variation: Variation) -> bool:
    """Whether groups that do the same collective take each its own time for it."""
    sizes = {program.axes[op.axis].size for op in program.ops if op.axis is not None}
    return variation.network_jitter > 0 and any(size < program.n_ranks for size in sizes)


def unfolded(program: Program) -> Folded:
    """Every rank a class of its own."""
    groups = [instance(axis, program.n_ranks) for axis in program.axes]
    return _folded(np.arange(program.n_ranks, dtype=np.int64), groups)


def _refined(class_of: Int, groups: list[Int]) -> Int:
    n_classes = int(class_of.max()) + 1
    while n_classes > 1:
        signature = class_of
        for group in groups:
            signature = _pair(signature, _content(class_of, group))
        class_of = np.unique(signature, return_inverse=True)[1].astype(np.int64)
        found = int(class_of.max()) + 1
        if found == n_classes:
            break
        n_classes = found
    return class_of


def _content(class_of: Int, group: Int) -> Int:
    """For each rank, a number that says which classes its group holds, and how many of each."""
    order = np.lexsort((class_of, group))
    size = int(np.bincount(group).max())
    rows = class_of[order].reshape(-1, size)
    kinds = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    first_of_row = group[order].reshape(-1, size)[:, 0]
    number = np.empty(rows.shape[0], dtype=np.int64)
    number[first_of_row] = kinds
    return number[group]


def _pair(left: Int, right: Int) -> Int:
    return (left * (int(right.max()) + 1) + right).astype(np.int64)


def _folded(class_of: Int, groups: list[Int]) -> Folded:
    # Classes are numbered by their first rank, so that the order depends on nothing else.
    firsts = np.unique(class_of, return_index=True)[1]
    order = np.argsort(firsts)
    renumber = np.empty_like(order)
    renumber[order] = np.arange(len(order))
    representatives = tuple(int(r) for r in firsts[order])
    return Folded(
        renumber[class_of],
        representatives,
        tuple(_meeting(renumber[class_of], group, len(representatives)) for group in groups),
    )


def _meeting(class_of: Int, group: Int, n_classes: int) -> Int:
    """Number classes so that two have the same number when they meet in a group."""
    lowest = np.full(int(group.max()) + 1, n_classes, dtype=np.int64)
    np.minimum.at(lowest, group, class_of)
    meets = np.full(n_classes, n_classes, dtype=np.int64)
    np.minimum.at(meets, class_of, lowest[group])
    return np.unique(meets, return_inverse=True)[1].astype(np.int64)
