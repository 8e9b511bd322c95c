"""Clocks: shared on one host, otherwise measured by the shortest of many ping-pongs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.conftest import Ranks
from zerosim_runtime.alignment import shift
from zerosim_runtime.clock import clock_identity
from zerosim_runtime.records import Offset

Launch = Callable[[int], Ranks]


@pytest.mark.runtime
def test_ranks_of_one_host_share_a_clock(ranks: Launch) -> None:
    assert [report["one_clock"] for report in ranks(2).reports] == [True, True]


@pytest.mark.runtime
def test_a_clock_one_second_ahead_is_found_within_its_error(ranks: Launch) -> None:
    first, *others = ranks(3).reports
    assert [(o["rank"], round(o["offset_ns"], -8)) for o in first["offsets"]] == [
        (1, 1_000_000_000),
        (2, 2_000_000_000),
    ]
    for offset in first["offsets"]:
        off_by = abs(offset["offset_ns"] - offset["rank"] * 1_000_000_000)
        assert off_by <= offset["error_ns"] < 20_000_000
    assert [report["offsets"] for report in others] == [[], []]


def test_a_process_has_the_clock_of_its_boot_and_namespace() -> None:
    assert clock_identity() == clock_identity()
    assert len(clock_identity()) > 20


def test_without_offsets_nothing_is_shifted() -> None:
    assert shift((), 123) == 0


def test_one_offset_is_taken_off_everywhere() -> None:
    assert shift((Offset(1, at_ns=100, offset_ns=40, error_ns=2),), 5_000) == -40


def test_drift_between_two_offsets_is_a_straight_line() -> None:
    offsets = (Offset(1, 1_000, 100, 2), Offset(1, 2_000, 200, 2))
    assert shift(offsets, 1_100) == -100
    assert shift(offsets, 1_600) == -150
    assert shift(offsets, 2_200) == -200


def test_before_the_first_and_after_the_last_offset_the_nearest_counts() -> None:
    offsets = (Offset(1, 1_000, 100, 2), Offset(1, 2_000, 200, 2))
    assert shift(offsets, 0) == -100
    assert shift(offsets, 9_000) == -200
