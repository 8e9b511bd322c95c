"""Chunks of rows as torch.chunk cuts them; some ranks own none."""

from __future__ import annotations

from zerosim.partition import chunk, chunk_owned
from zerosim.workload import Parameter


def rows(n_rows: int, n_ranks: int) -> list[int]:
    parameter = Parameter("p", (n_rows,))
    return [chunk_owned(parameter, n_ranks, rank) for rank in range(n_ranks)]


# Check cases E6 and E7.
def test_trailing_ranks_may_own_no_row() -> None:
    assert rows(5, 8) == [1, 1, 1, 1, 1, 0, 0, 0]
    assert rows(10, 8) == [2, 2, 2, 2, 2, 0, 0, 0]


# Check case E8.
def test_the_rows_of_a_vocabulary_of_50257() -> None:
    assert rows(50257, 64) == [786] * 63 + [739]
    assert chunk(Parameter("p", (50257,)), 64) * 64 == 50304
    assert rows(50257, 1024) == [50] * 1005 + [7] + [0] * 18


# Check case E9.
def test_a_norm_of_1600_leaves_224_of_1024_ranks_empty() -> None:
    assert rows(1600, 1024) == [2] * 800 + [0] * 224


def test_a_row_is_a_whole_slice_of_the_first_dimension() -> None:
    assert chunk(Parameter("p", (5, 3)), 2) == 9
    assert chunk(Parameter("scalar", ()), 4) == 1
    assert chunk(Parameter("none", (0, 3)), 4) == 0
