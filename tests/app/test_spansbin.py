"""spans.bin: every column exact, sorted, aligned, and unknown where nothing is known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.app.encoded import BASE, decode, encoded, header, trace_of, two_ranks
from zerosim.errors import InputError
from zerosim.kinds import KINDS
from zerosim.trace import Clock, Group
from zerosim_app.spansbin import encode


def test_times_are_exact_and_relative_to_the_run() -> None:
    made = encoded(two_ranks())
    columns = decode(made)
    assert header(made)["base_ns"] == str(BASE + 10)
    assert header(made)["duration_ns"] == 140
    assert columns["start"].tolist() == [90, 0, 90, 30]
    assert columns["duration"].tolist() == [40, 90, 50, 60]
    assert columns["rowOffsets"].tolist() == [0, 1, 2, 3, 4]


def test_spans_point_to_their_row_of_the_trace_table() -> None:
    columns = decode(encoded(two_ranks()))
    assert columns["index"].tolist() == [3, 2, 1, 0]
    assert [KINDS[k] for k in columns["kind"]] == ["forward", "all_gather"] * 2
    assert columns["flags"].tolist() == [0, 0, 2, 0]


def test_an_unknown_issue_time_is_unknown_and_never_zero() -> None:
    assert decode(encoded(two_ranks()))["lead"].tolist() == [98, 10, -(2**31), 35]


def test_members_of_a_collective_share_a_number_and_the_last_arrival() -> None:
    columns = decode(encoded(two_ranks()))
    assert columns["collective"].tolist() == [-1, 0, -1, 0]
    assert columns["transfer"].tolist() == [30]


def test_the_last_arrival_counts_though_its_rank_is_not_on_show() -> None:
    columns = decode(encode(two_ranks(), (0,), "0", "made"))
    assert columns["collective"].tolist() == [-1, 0]
    assert columns["transfer"].tolist() == [30]


def test_times_do_not_depend_on_the_ranks_on_show() -> None:
    made = encode(two_ranks(), (1,), "1", "made")
    assert header(made)["base_ns"] == str(BASE + 10)
    assert decode(made)["start"].tolist() == [90, 30]


def test_waiting_is_unknown_when_ranks_are_missing() -> None:
    assert np.isnan(decode(encoded(two_ranks(world_size=4)))["transfer"]).all()
    assert np.isnan(decode(encoded(two_ranks(world_size=None)))["transfer"]).all()


def test_waiting_is_known_when_all_members_of_the_group_are_there() -> None:
    groups = (Group("world", 2, (0, 1)), Group("other", 4, (0, 1, 2, 3)))
    made = encoded(two_ranks(world_size=4, groups=groups))
    assert decode(made)["transfer"].tolist() == [30]


def test_waiting_is_unknown_on_clocks_that_are_not_aligned() -> None:
    made = encoded(two_ranks(clock=Clock(aligned=False)))
    assert np.isnan(decode(made)["transfer"]).all()
    assert header(made)["aligned"] is False


def test_durations_beyond_32_bits_are_exact_in_the_wide_form() -> None:
    long = 2**40 + 1
    made = encoded(
        trace_of([(0, "host", "host", "run", 0, long), (0, "compute", "other", "x", 3, 9)])
    )
    columns = decode(made)
    assert columns["duration"].dtype == np.float64
    assert columns["duration"].tolist() == [long, 6]
    assert np.isnan(columns["lead"]).all()


def test_an_issue_beyond_31_bits_makes_the_form_wide() -> None:
    trace = trace_of([(0, "host", "host", "x", 2**33, 2**33 + 5)], {"issued_ns": [0]})
    assert decode(encoded(trace))["lead"].tolist() == [2.0**33]


def test_a_run_longer_than_a_double_can_count_is_refused() -> None:
    trace = trace_of(
        [(0, "host", "host", "x", -(2**62), -(2**62) + 1), (0, "a", "host", "y", 2**62, 2**62 + 1)]
    )
    with pytest.raises(InputError, match="over 104 days"):
        encoded(trace)


def test_instant_spans_are_left_out_and_counted() -> None:
    made = encoded(
        trace_of([(0, "compute", "fill", "fill", 4, 4), (0, "compute", "other", "x", 0, 9)])
    )
    assert header(made)["hidden"] == {"instant": 1, "crowded": 0}
    assert header(made)["n_spans"] == 1


def test_rows_are_sorted_and_never_overlap() -> None:
    rng = np.random.default_rng(5)
    starts = rng.integers(0, 500, 200)
    rows = [
        (int(r), "host", "host", "x", int(s), int(s + d))
        for r, s, d in zip(rng.integers(0, 3, 200), starts, rng.integers(1, 60, 200), strict=True)
    ]
    columns = decode(encoded(trace_of(rows, world_size=3)))
    offsets = columns["rowOffsets"]
    for first, last in pairwise(offsets.tolist()):
        start = columns["start"][first:last]
        end = start + columns["duration"][first:last]
        assert (start[1:] >= end[:-1]).all()


def test_a_run_without_spans_or_samples_is_encoded() -> None:
    made = encode(trace_of([]), "classes", "classes", "made")
    assert decode(made)["rowOffsets"].tolist() == [0]
    assert header(made)["memory"] == []
    assert header(made)["duration_ns"] == 1
