"""Sizes of the even split alone: every parameter padded so that it divides by the ranks."""

from __future__ import annotations

from zerosim.partition.buffers import padded
from zerosim.workload import Unit


def padded_unit(unit: Unit, n_ranks: int) -> int:
    """Elements of a unit when each parameter is padded and viewed as `[n_ranks, -1]`.

    The even split of ColossalAI's and DeepSpeed's ZeRO-3: Σ n_ranks·ceil(n_i / n_ranks).
    """
    return sum(padded(p.numel, n_ranks) for p in unit.parameters)


def shard_unit(unit: Unit, n_ranks: int) -> int:
    """Elements of a unit that each rank owns, padding included."""
    return padded_unit(unit, n_ranks) // n_ranks


def owned(unit: Unit, n_ranks: int, rank: int) -> int:
    """Elements of a unit that `rank` owns without padding: rows past the end are padding."""
    total = 0
    for parameter in unit.parameters:
        row = -(-parameter.numel // n_ranks)
        total += max(0, min(row, parameter.numel - rank * row))
    return total
