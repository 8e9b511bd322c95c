"""Who waited for whom."""

from __future__ import annotations

from typing import Any

from zerosim.analysis.skew import last_arrivals, measure_skew
from zerosim.trace import Clock, Flag


def member(rank: int, collective: int, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": "all_reduce",
        "rank": rank,
        "collective": collective,
        "start": start,
        "end": end,
        **more,
    }


def test_waiting_is_summed_over_collectives(make_run: Any) -> None:
    trace = make_run(
        [
            *(member(0, 1, 0, 20), member(1, 1, 10, 20), member(2, 1, 4, 20)),
            *(member(0, 2, 30, 50), member(1, 2, 31, 50), member(2, 2, 40, 50)),
        ]
    )
    skew = measure_skew(trace)
    assert (skew.aligned, skew.n, skew.ranks) == (True, 2, (0, 1, 2))
    assert skew.wait_ns_per_rank == (10 + 10, 0 + 9, 6 + 0)
    assert skew.arrived_last_count == (0, 1, 1)


def test_the_straggler_waits_least_even_if_others_came_last_more_often(make_run: Any) -> None:
    rows = [member(0, i, i * 10, i * 10 + 9) for i in range(3)]
    rows += [member(1, i, i * 10 + 1, i * 10 + 9) for i in range(3)]
    rows += [member(0, 3, 38, 50), member(1, 3, 30, 50)]
    skew = measure_skew(make_run(rows))
    assert skew.wait_ns_per_rank == (3, 8)
    assert skew.arrived_last_count == (1, 3)
    assert skew.straggler == 0


def test_where_all_come_at_once_nobody_is_last_and_nobody_straggles(make_run: Any) -> None:
    skew = measure_skew(make_run([member(r, 1, 5, 9) for r in range(3)]))
    assert skew.wait_ns_per_rank == (0, 0, 0)
    assert skew.arrived_last_count == (0, 0, 0)
    assert skew.straggler is None


def test_only_collectives_of_all_ranks_count(make_run: Any) -> None:
    rows = [member(0, 1, 0, 9), member(1, 1, 4, 9), member(0, 2, 10, 30), member(0, 3, 0, 5)]
    rows += [member(1, 3, 0, 5, flags=int(Flag.UNTIMED))]
    skew = measure_skew(make_run(rows))
    assert (skew.n, skew.wait_ns_per_rank) == (1, (4, 0))


def test_clocks_that_do_not_agree_leave_waiting_unknown(make_run: Any) -> None:
    trace = make_run([member(0, 1, 0, 9), member(1, 1, 4, 9)], clock=Clock(aligned=False))
    skew = measure_skew(trace)
    assert (skew.aligned, skew.n) == (False, 1)
    assert skew.wait_ns_per_rank is None
    assert skew.straggler is None


def test_a_single_rank_waits_for_nobody(make_run: Any) -> None:
    skew = measure_skew(make_run([member(5, 1, 0, 9)]))
    assert (skew.n, skew.wait_ns_per_rank, skew.straggler) == (1, (0,), None)


def test_a_run_without_collectives_has_nothing_to_compare(make_run: Any) -> None:
    skew = measure_skew(make_run([{"kind": "forward", "start": 0, "end": 9}]))
    assert (skew.aligned, skew.n, skew.wait_ns_per_rank) == (False, 0, None)
    assert measure_skew(make_run([], steps=())).n == 0


def test_the_last_arrival_starts_the_transfer_but_never_after_its_end(make_run: Any) -> None:
    rows = [
        *(member(0, 1, 0, 20), member(1, 1, 8, 20)),
        *(member(0, 2, 30, 33), member(1, 2, 40, 45)),
        {"kind": "forward", "start": 50, "end": 60},
    ]
    arrived = last_arrivals(make_run(rows).spans)["arrived_ns"].to_list()
    assert arrived == [8, 8, 33, 40, 50]
