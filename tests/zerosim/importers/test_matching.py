"""Rows of different ranks are tied into collectives by sequence, size, order and overlap."""

from __future__ import annotations

from typing import Any

import polars as pl

from zerosim.importers.matching import tie
from zerosim.importers.recording import tabulate
from zerosim.trace import Flag

Row = tuple[int, str, int, int, int]


def spans(*rows: Row, **columns: list[Any]) -> pl.DataFrame:
    """Rows (rank, kind, elements, start, end) of group `0`."""
    told: dict[str, list[Any]] = {"flags": [0] * len(rows), "group": ["0"] * len(rows), **columns}
    frame = tabulate(
        {
            "stream": ["comm"] * len(rows),
            "kind": [r[1] for r in rows],
            "name": ["c"] * len(rows),
            "start_ns": [r[3] for r in rows],
            "end_ns": [r[4] for r in rows],
            "elements": [r[2] for r in rows],
            **told,
        }
    )
    return frame.with_columns(pl.Series("rank", [r[0] for r in rows], dtype=pl.Int32))


def ids(frame: pl.DataFrame) -> list[int | None]:
    return tie(frame).collective.to_list()


def test_equal_sequences_are_tied_one_by_one() -> None:
    frame = spans(
        (0, "all_gather", 8, 0, 10),
        (0, "reduce_scatter", 8, 20, 30),
        (1, "all_gather", 8, 2, 10),
        (1, "reduce_scatter", 8, 21, 30),
    )
    assert ids(frame) == [0, 1, 0, 1]


def test_computation_is_tied_to_nothing() -> None:
    assert ids(spans((0, "other", 8, 0, 10), (1, "all_reduce", 8, 0, 10))) == [None, 0]


def test_a_rank_that_lost_its_first_collective_is_shifted_by_overlap() -> None:
    frame = spans(
        *((0, "all_reduce", 8, 100 * i, 100 * i + 50) for i in range(6)),
        *((1, "all_reduce", 8, 100 * i + 5, 100 * i + 50) for i in range(1, 6)),
    )
    assert ids(frame) == [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


def test_ranks_with_equal_counts_from_different_windows_are_shifted_too() -> None:
    frame = spans(
        *((0, "all_reduce", 8, 100 * i, 100 * i + 50) for i in range(9)),
        *((1, "all_reduce", 8, 100 * i + 5, 100 * i + 50) for i in range(1, 10)),
    )
    found = tie(frame)
    assert found.collective.to_list() == [*range(9), *range(1, 9), None]
    assert found.loose == 1


def test_what_was_launched_before_the_recording_stays_alone() -> None:
    frame = spans(
        (0, "all_reduce", 8, 0, 10),
        (0, "all_reduce", 8, 20, 30),
        (1, "all_reduce", 8, 21, 30),
        flags=[int(Flag.BEFORE_WINDOW), 0, 0],
    )
    assert ids(frame) == [None, 0, 0]


def test_sequence_numbers_decide_where_there_are_any() -> None:
    frame = spans(
        (0, "all_reduce", 8, 0, 10),
        (0, "all_reduce", 8, 20, 30),
        (1, "all_reduce", 8, 500, 510),
        (1, "all_reduce", 8, 520, 530),
        sequence=[7, 8, 8, 9],
    )
    assert ids(frame) == [0, 1, 1, 2]


def test_groups_are_counted_apart() -> None:
    frame = spans(
        (0, "all_reduce", 8, 0, 10),
        (0, "all_reduce", 8, 20, 30),
        (1, "all_reduce", 8, 20, 30),
        (1, "all_reduce", 8, 0, 10),
        group=["tp", "dp", "dp", "tp"],
    )
    assert ids(frame) == [0, 1, 1, 0]


def test_sends_and_receives_are_not_tied() -> None:
    assert ids(spans((0, "p2p", 8, 0, 10), (1, "p2p", 8, 0, 10))) == [None, None]


def test_clocks_that_disagree_are_noticed_and_sizes_decide() -> None:
    frame = spans(
        *((0, "all_reduce", 8 + i, 100 * i, 100 * i + 50) for i in range(6)),
        *((1, "all_reduce", 8 + i, 100 * i + 9000, 100 * i + 9050) for i in range(6)),
    )
    found = tie(frame)
    assert found.collective.to_list() == [*range(6), *range(6)]
    assert found.apart_ns == 8950


def test_clocks_that_agree_are_not_doubted() -> None:
    assert tie(spans((0, "all_reduce", 8, 0, 10), (1, "all_reduce", 8, 5, 11))).apart_ns == 0


def test_a_broadcast_may_end_at_its_root_before_others_come() -> None:
    assert tie(spans((0, "broadcast", 8, 0, 10), (1, "broadcast", 8, 50, 60))).apart_ns == 0


def test_an_empty_table_has_nothing_to_tie() -> None:
    found = tie(spans())
    assert (len(found.collective), found.loose, found.apart_ns) == (0, 0, 0)
