"""Who carries how much, and how buckets fill."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.analysis.balance import Load, imbalance, rank_loads
from zerosim.analysis.buckets import BucketFill, bucket_fills
from zerosim.trace import Flag, RankClass, StateBytes, Trace


def test_a_load_is_states_and_busy_time(make_run: Any) -> None:
    rows = [
        {"kind": "forward", "rank": 0, "start": 0, "end": 30},
        {"kind": "all_reduce", "rank": 1, "start": 0, "end": 20},
    ]
    trace = make_run(rows, states=(StateBytes(0, 8, 4, 16),))
    assert rank_loads(trace) == (
        Load(0, ((0, 0),), 8, 4, 16, 30, 0),
        Load(1, ((1, 1),), None, None, None, 0, 20),
    )


def test_a_rank_that_stands_for_others_names_them(make_run: Any) -> None:
    trace = make_run(
        [{"kind": "forward", "start": 0, "end": 30}],
        classes=(RankClass(0, ((0, 6), (8, 15))),),
        states=(StateBytes(0, 8, 4, 16),),
    )
    assert [load.members for load in rank_loads(trace)] == [((0, 6), (8, 15))]


def test_members_with_rows_of_their_own_stand_for_themselves(make_run: Any) -> None:
    rows = [{"kind": "forward", "rank": rank, "start": 0, "end": 30} for rank in (0, 1)]
    trace = make_run(rows, classes=(RankClass(0, ((0, 1),)),))
    assert [load.members for load in rank_loads(trace)] == [((0, 0),), ((1, 1),)]


def test_a_rank_known_by_its_states_alone_has_unknown_times(make_run: Any) -> None:
    trace = make_run([], steps=(), states=(StateBytes(3, 8, 4, 16),))
    assert rank_loads(trace) == (Load(3, ((3, 3),), 8, 4, 16, None, None),)


@pytest.mark.parametrize(
    ("values", "expected"),
    [((10, 10, 10), 1.0), ((30, 10, 20), 1.5), ((5, None), None), ((0, 0), None), ((), None)],
)
def test_imbalance_is_the_largest_over_the_mean(
    values: tuple[int | None, ...], expected: float | None
) -> None:
    assert imbalance(values) == expected


def fill(bucket: int, start: int, end: int, nbytes: int | None, **more: Any) -> dict[str, Any]:
    return {"kind": "fill", "bucket": bucket, "start": start, "end": end, "nbytes": nbytes, **more}


def sent(bucket: int, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"kind": "reduce_scatter", "bucket": bucket, "start": start, "end": end, **more}


def test_a_bucket_grows_with_each_fill_and_is_empty_once_sent(make_run: Any) -> None:
    trace = make_run([fill(0, 0, 2, 100), fill(0, 10, 12, 50), sent(0, 20, 40), fill(0, 50, 52, 7)])
    assert bucket_fills(trace, 0) == (
        BucketFill(0, (2, 12, 20, 52), (100, 150, 0, 7), (20,), (40,)),
    )


def test_buckets_fill_apart_and_stand_by_number(make_run: Any) -> None:
    trace = make_run([fill(1, 0, 2, 10), fill(0, 3, 4, 20), sent(1, 5, 9)])
    assert bucket_fills(trace, 0) == (
        BucketFill(0, (4,), (20,), ()),
        BucketFill(1, (2, 5), (10, 0), (5,), (9,)),
    )


def test_only_the_rank_that_was_asked_for_counts(make_run: Any) -> None:
    trace = make_run([fill(0, 0, 2, 10, rank=1), fill(0, 0, 2, 30, rank=0)])
    assert bucket_fills(trace, 1) == (BucketFill(0, (2,), (10,), ()),)


def test_a_gather_of_an_empty_bucket_changes_nothing(make_run: Any) -> None:
    assert bucket_fills(make_run([sent(0, 0, 9)]), 0) == ()


def test_fills_of_unknown_size_or_time_are_passed_over(make_run: Any) -> None:
    rows = [fill(0, 0, 2, None), fill(0, 4, 4, 9, flags=int(Flag.UNTIMED)), fill(0, 5, 6, 3)]
    assert bucket_fills(make_run(rows), 0) == (BucketFill(0, (6,), (3,), ()),)


def test_a_run_without_buckets_has_no_fills(one_rank: Trace) -> None:
    assert bucket_fills(one_rank, 0) == ()
