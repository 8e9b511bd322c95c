"""Buckets that close before they overflow, and how they are cut into collectives."""

from __future__ import annotations

from zerosim.kinds import Kind
from zerosim.schedules.deepspeed12.ipg import (
    Reduction,
    all_reduced,
    cut_into_buckets,
    flat,
    owners,
    reduced_to_owners,
)
from zerosim.schedules.deepspeed12.slots import Slot


def slots(*numels: int) -> tuple[Slot, ...]:
    return tuple(Slot(i, (0, i), n, 0, 0) for i, n in enumerate(numels))


def test_a_bucket_may_be_exactly_full() -> None:
    cut = cut_into_buckets(slots(4, 4, 4), 8)
    assert [bucket.elements for bucket in cut] == [8, 4]


def test_a_gradient_larger_than_a_bucket_comes_alone() -> None:
    cut = cut_into_buckets(slots(4, 9, 1), 8)
    assert [(bucket.elements, bucket.large) for bucket in cut] == [
        (4, False),
        (9, True),
        (1, False),
    ]


def test_a_parameter_may_straddle_several_ranks() -> None:
    assert owners(flat(slots(3, 10, 3), 4, dealt=False, align=1)) == {
        0: ((0, 3),),
        1: ((0, 1), (1, 4), (2, 4), (3, 1)),
        2: ((3, 3),),
    }


def test_dealt_parameters_go_round_the_ranks() -> None:
    assert owners(flat(slots(4, 4, 4, 4), 2, dealt=True, align=1)) == {
        0: ((0, 4),),
        2: ((0, 4),),
        1: ((1, 4),),
        3: ((1, 4),),
    }


def test_neighbouring_slices_of_an_owner_are_one_and_need_no_flat_copy() -> None:
    assert all_reduced([(1, 3), (1, 2)], 100) == (Reduction(Kind.ALL_REDUCE, 5, flattened=False),)


def test_slices_of_several_owners_are_flattened_together() -> None:
    assert all_reduced([(1, 3), (0, 2)], 100) == (Reduction(Kind.ALL_REDUCE, 5, flattened=True),)


def test_each_owner_has_a_reduction_in_the_order_of_first_sight() -> None:
    assert reduced_to_owners([(1, 3), (0, 2), (1, 4)], 100) == (
        Reduction(Kind.REDUCE, 7, flattened=True),
        Reduction(Kind.REDUCE, 2, flattened=False),
    )


def test_slices_over_the_bucket_size_go_by_themselves() -> None:
    assert [r.elements for r in all_reduced([(0, 9), (1, 9)], 8)] == [9, 9]
