"""Partitioning: the even split with padding, held against published sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.partition import owned, padded, padded_unit, shard_unit
from zerosim.workload import Parameter, Unit


def of_sizes(*sizes: int) -> Unit:
    return Unit("u", tuple(Parameter(str(i), (n,)) for i, n in enumerate(sizes)))


MLP = of_sizes(32768, 256, 65536, 256, 131072, 512)
"""The parameters of ColossalAI's issue about an uneven split."""


def test_sizes_are_rounded_up_to_a_multiple_of_the_ranks() -> None:
    assert [padded(n, 8) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]


def test_the_mlp_of_the_issue_splits_evenly_without_padding() -> None:
    assert shard_unit(MLP, 8) == 28800
    assert padded_unit(MLP, 8) == 230400


def test_one_odd_parameter_is_padded_by_5_elements() -> None:
    assert shard_unit(of_sizes(1000003), 8) == 125001
    assert padded_unit(of_sizes(1000003), 8) - 1000003 == 5


def test_trailing_ranks_own_less_or_nothing_of_a_small_parameter() -> None:
    assert [owned(of_sizes(10), 8, rank) for rank in range(8)] == [2, 2, 2, 2, 2, 0, 0, 0]
    assert [owned(of_sizes(5), 8, rank) for rank in range(8)] == [1, 1, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(("n_ranks", "last"), [(64, 50257 - 63 * 786), (1024, 0)])
def test_a_vocabulary_of_50257_rows_leaves_the_last_rank_short(n_ranks: int, last: int) -> None:
    assert owned(of_sizes(50257), n_ranks, n_ranks - 1) == last


@given(st.lists(st.integers(1, 500), min_size=1, max_size=5), st.integers(1, 40))
def test_what_the_ranks_own_adds_up_to_the_unit(sizes: list[int], n_ranks: int) -> None:
    unit = of_sizes(*sizes)
    shares = [owned(unit, n_ranks, rank) for rank in range(n_ranks)]
    assert sum(shares) == unit.numel
    assert max(shares) <= shard_unit(unit, n_ranks)
    assert padded_unit(unit, n_ranks) - unit.numel < n_ranks * len(sizes)
