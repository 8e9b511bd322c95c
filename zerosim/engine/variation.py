"""What differs between ranks: stragglers, slow links, jitter; and what each op takes on each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerosim.collectives import Transfer
from zerosim.engine.program import Int, Program, Timed, every_rank, instance
from zerosim.units import seconds_to_ns


@dataclass(frozen=True, slots=True)
class Variation:
    """What differs between ranks.

    `speed`: (rank, factor) stretches all compute of a rank; `slow`: (link, rank, share) leaves that
    rank a share of a link's rate, and so every collective that it is a member of. `jitter`: relative
    spread of every op on every rank, and `network_jitter` of every collective, lognormal, drawn from
    `seed`; `durations`: (op, ns per rank) given outright.
    """

    speed: tuple[tuple[int, float], ...] = ()
    jitter: float = 0.0
    seed: int = 0
    durations: tuple[tuple[int, tuple[int, ...]], ...] = ()
    slow: tuple[tuple[str, int, float], ...] = ()
    network_jitter: float = 0.0

    @property
    def every_rank_differs(self) -> bool:
        """Whether no two ranks can be told to behave alike."""
        return self.jitter > 0 or bool(self.durations)


EQUAL = Variation()


def durations(program: Program, variation: Variation, ranks: Sequence[int]) -> list[Int | int]:
    """What each op takes on each of `ranks`: a number where all agree, else an array.

    Jitter of an op is drawn from (seed, op) for ranks in order, so it depends on nothing else. Of a
    collective all members take the draw of their first.
    """
    if variation == EQUAL and not program.uneven:
        return [op.duration_ns for op in program.ops]
    given = dict(variation.durations)
    chosen = np.asarray(ranks)
    factors = factors_of(variation.speed, program.n_ranks)
    uniform = bool((factors == 1.0).all()) and not variation.jitter
    moving = _Moving(program, variation)
    rows: list[Int | int] = []
    for i, op in enumerate(program.ops):
        if i in given:
            rows.append(np.asarray(given[i], dtype=np.int64)[chosen])
        elif op.axis is not None:
            taken = moving.ns(i, op, op.axis)
            rows.append(taken if isinstance(taken, int) else taken[chosen])
        elif op.duration_ns == 0 or (uniform and op.by_rank is None):
            rows.append(op.duration_ns)
        else:
            alone = op.duration_ns if op.by_rank is None else every_rank(op.by_rank)[chosen]
            stretch = factors
            if variation.jitter:
                draw = np.random.default_rng((variation.seed, i)).standard_normal(program.n_ranks)
                stretch = factors * np.exp(variation.jitter * draw)
            rows.append(np.rint(alone * stretch[chosen]).astype(np.int64))
    return rows


def factors_of(pairs: Sequence[tuple[int, float]], n_ranks: int) -> NDArray[np.float64]:
    """The factor of every rank, 1 where none is given: shape [ranks]."""
    factors = np.ones(n_ranks)
    for rank, factor in pairs:
        factors[rank] = factor
    return factors


def shares_left(variation: Variation, n_ranks: int) -> dict[str, NDArray[np.float64]]:
    """Of each link that is slow somewhere, the share of its rate that every rank has: shape [ranks]."""
    links = dict.fromkeys(link for link, _, _ in variation.slow)
    return {
        link: factors_of([(r, share) for name, r, share in variation.slow if name == link], n_ranks)
        for link in links
    }


class _Moving:
    """What collectives take where links are slow, or the network's pace varies."""

    def __init__(self, program: Program, variation: Variation) -> None:
        self._capacity = program.capacity
        self._variation = variation
        self._shares = shares_left(variation, program.n_ranks)
        self._groups = [instance(axis, program.n_ranks) for axis in program.axes]
        self._known: dict[tuple[Transfer, int], Int | int] = {}

    def ns(self, i: int, op: Timed, axis: int) -> Int | int:
        """What collective `i` takes: shape [ranks], or a number where all take as long."""
        if op.duration_ns == 0 or op.transfer is None:
            return op.duration_ns
        key = (op.transfer, axis)
        if key not in self._known:
            self._known[key] = self._slowed(op.transfer, axis)
        spread = self._variation.network_jitter
        if not spread:
            return self._known[key]
        # Apart from the draws of kernels, which are of (seed, op).
        generator = np.random.default_rng((self._variation.seed, i, 1))
        draw = generator.standard_normal(len(self._groups[axis]))
        first = np.unique(self._groups[axis], return_index=True, return_inverse=True)
        mine = draw[first[1]][first[2]]
        stretched: Int = np.rint(self._known[key] * np.exp(spread * mine)).astype(np.int64)
        return stretched

    def _slowed(self, moved: Transfer, axis: int) -> Int | int:
        """The slowest link of a group sets the pace of all its members."""
        found: Int | int = moved.alone_ns
        for link, nbytes in moved.loads:
            if link in self._shares:
                group = self._groups[axis]
                least = np.ones(int(group.max()) + 1)
                np.minimum.at(least, group, self._shares[link])
                wire = [seconds_to_ns(nbytes / (self._capacity[link] * share)) for share in least]
                slowed = np.where(least < 1, moved.latency_ns + np.asarray(wire), 0)[group]
                found = np.maximum(found, slowed).astype(np.int64)
        return found
