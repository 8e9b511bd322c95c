"""The partition styles on the cases that people ask about: seeds, odd sizes, rows, alignment."""

from __future__ import annotations

from math import inf

import pytest

from zerosim.errors import UnknownNameError
from zerosim.partition import (
    PARTITIONS,
    Balance,
    Piece,
    balance,
    by_unit,
    even,
    flat,
    megatron,
    megatron_bucket_size,
    pieces,
    round_robin,
    rows,
    whole,
)
from zerosim.workload import Parameter, Unit


def of_shapes(*shapes: tuple[int, ...]) -> list[Unit]:
    return [Unit(str(i), (Parameter("weight", shape),)) for i, shape in enumerate(shapes)]


def of_sizes(*sizes: int) -> list[Unit]:
    return of_shapes(*((n,) for n in sizes))


MLP = of_sizes(32768, 256, 65536, 256, 131072, 512)
"""The MlpModel of ColossalAI's issue: Linear(128, 256), Linear(256, 256), Linear(256, 512)."""


def rows_owned(n_rows: int, n_ranks: int) -> tuple[int, ...]:
    return balance(rows(of_shapes((n_rows, 3)), n_ranks)).loads


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (50, 4, 3, 2, 1), (10, 20, 30, 40, 50)])
def test_e1_five_whole_parameters_leave_three_of_eight_ranks_with_nothing(
    sizes: tuple[int, ...],
) -> None:
    assert balance(whole(of_sizes(*sizes), 8)).empty_ranks == 3


def test_e2_the_mlp_of_the_issue_split_by_whole_parameters() -> None:
    split = balance(whole(MLP, 8))
    assert split.loads == (131072, 65536, 32768, 512, 256, 256, 0, 0)
    assert split.stored == split.loads
    assert split.max_over_mean == pytest.approx(4.551, abs=5e-4)
    assert split.empty_ranks == 2


@pytest.mark.parametrize("style", ["even", "flat"])
def test_e3_the_same_mlp_split_evenly(style: str) -> None:
    split = balance(PARTITIONS[style].divide(MLP, 8))
    assert split == Balance(loads=(28800,) * 8, stored=(28800,) * 8)
    assert (split.padding, split.max_over_mean, split.empty_ranks) == (0, 1.0, 0)


def test_e4_a_layer_that_is_not_used_leaves_four_parameters_of_20576_elements_a_rank() -> None:
    used = [MLP[i] for i in (0, 1, 4, 5)]
    split = balance(even(used, 8))
    assert sum(split.loads) == 164608
    assert split.loads == (20576,) * 8


def test_e5_one_odd_parameter() -> None:
    odd = of_sizes(1000003)
    split = balance(even(odd, 8))
    assert (split.stored, split.padding) == ((125001,) * 8, 5)
    aligned = balance(flat(odd, 8))
    assert (sum(aligned.stored), aligned.stored) == (1000016, (125002,) * 8)
    assert aligned.loads == (125002,) * 7 + (125002 - 13,)


def test_e6_five_rows_on_eight_ranks() -> None:
    assert rows_owned(5, 8) == (3, 3, 3, 3, 3, 0, 0, 0)


def test_e7_ten_rows_on_eight_ranks_leave_three_ranks_empty() -> None:
    assert rows_owned(10, 8) == (6, 6, 6, 6, 6, 0, 0, 0)
    assert balance(rows(of_shapes((10, 3)), 8)).stored == (6,) * 8


def test_e8_the_rows_of_a_vocabulary() -> None:
    assert rows_owned(50257, 64) == (786 * 3,) * 63 + (739 * 3,)
    assert sum(balance(rows(of_shapes((50257, 3)), 64)).stored) == 50304 * 3
    assert rows_owned(50257, 1024) == (50 * 3,) * 1005 + (7 * 3,) + (0,) * 18


def test_e9_a_norm_of_1600_on_1024_ranks() -> None:
    assert balance(rows(of_sizes(1600), 1024)).loads == (2,) * 800 + (0,) * 224


def test_e10_a_drawing_gives_a_layer_to_each_rank_and_real_systems_split_every_layer() -> None:
    layers = of_sizes(9, 9, 9)
    assert [pieces(whole(layers, 3), rank) for rank in range(3)] == [
        (Piece(0, 0, 9),),
        (Piece(1, 0, 9),),
        (Piece(2, 0, 9),),
    ]
    assert [pieces(even(layers, 3), rank) for rank in range(3)] == [
        (Piece(0, 0, 3), Piece(1, 0, 3), Piece(2, 0, 3)),
        (Piece(0, 3, 6), Piece(1, 3, 6), Piece(2, 3, 6)),
        (Piece(0, 6, 9), Piece(1, 6, 9), Piece(2, 6, 9)),
    ]


def test_in_a_flat_buffer_a_parameter_straddles_ranks_and_the_last_rank_pads() -> None:
    cut = flat(of_sizes(5, 6), 2)
    assert pieces(cut, 0) == (Piece(0, 0, 5), Piece(1, 0, 1))
    assert pieces(cut, 1) == (Piece(1, 1, 6),)
    assert balance(cut) == Balance(loads=(6, 5), stored=(6, 6))


def test_round_robin_deals_parameters_before_it_cuts() -> None:
    cut = round_robin(of_sizes(4, 2, 4, 2), 2)
    assert pieces(cut, 0) == (Piece(0, 0, 4), Piece(2, 0, 2))
    assert pieces(cut, 1) == (Piece(2, 2, 4), Piece(1, 0, 2), Piece(3, 0, 2))


def test_a_unit_is_padded_once_and_its_parameters_may_start_aligned() -> None:
    unit = [Unit("u", (Parameter("a", (3,)), Parameter("b", (4,))))]
    assert balance(by_unit(unit, 4)).stored == (2,) * 4
    assert [m.start for m in by_unit(unit, 4, align=8).buffers[0].members] == [0, 8]


def test_megatron_lays_parameters_in_reverse_from_64_to_64_and_pads_each_bucket() -> None:
    cut = megatron(of_sizes(100, 70, 10), n_ranks=6, bucket_size=100)
    assert [[(m.parameter, m.start) for m in b.members] for b in cut.buffers] == [
        [(2, 0), (1, 64)],
        [(0, 0)],
    ]
    # 134 and 100 elements, padded to lcm(6, 128) = 384.
    assert [b.elements for b in cut.buffers] == [384, 384]


def test_megatron_makes_one_bucket_without_overlap() -> None:
    assert len(megatron(of_sizes(*[1000] * 9), 8, bucket_size=inf).buffers) == 1


def test_a_megatron_bucket_grows_with_the_ranks() -> None:
    assert [megatron_bucket_size(n) for n in (8, 40, 64)] == [40_000_000, 40_000_000, 64_000_000]


def test_an_unknown_partition_is_refused_with_the_near_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'rows'"):
        PARTITIONS["row"]
