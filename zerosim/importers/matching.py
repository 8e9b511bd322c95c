"""Which rows of different ranks are one collective: by sequence number, else by order and overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zerosim.kinds import COMMUNICATION, Kind
from zerosim.trace import Flag, flagged, of_kind

_TIED: Final = tuple(k for k in COMMUNICATION if k is not Kind.P2P)
ALL_WAIT: Final = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_REDUCE, Kind.ALL_TO_ALL)
"""Collectives that nobody leaves before the last one has come."""

_REACH: Final = 64
"""How many collectives one file may have lost at its start against another."""

_SURE: Final = 0.8
"""The share of pairs that must overlap in time for time to decide how two ranks align."""

_TOLERATED: Final = 0.1
"""The share of collectives that may seem to end before all came (rounding, single odd events)."""


@dataclass(frozen=True, slots=True)
class Ties:
    """`collective`: an id a row, null where a row belongs to none. `loose` rows found no partner.

    `apart_ns`: by how much the ranks' clocks disagree at least, 0 if nothing speaks against them.
    """

    collective: pl.Series
    loose: int
    apart_ns: int


@dataclass(frozen=True, slots=True)
class _Lane:
    """One rank's collectives of one group, in issue order."""

    rows: NDArray[np.int64]
    signature: NDArray[Any]
    sequence: NDArray[np.float64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def tie(spans: pl.DataFrame, *, one_clock: bool = True) -> Ties:
    """Tie the rows of `spans` (columns SPANS without collective, and `sequence`) across ranks.

    `one_clock`: the ranks' times can be compared, so that what overlaps belongs together.
    Rows launched before the recording stay alone: how many of them a file holds is chance, so they
    would shift all that follow.
    """
    ids: NDArray[np.float64] = np.full(spans.height, np.nan)
    next_id, loose = 0, 0
    for _, frame in _candidates(spans).group_by("group", maintain_order=True):
        lanes = [_lane(rows) for _, rows in frame.group_by("rank", maintain_order=True)]
        next_id, lost = _tie_group(lanes, ids, next_id, one_clock=one_clock)
        loose += lost
    column = pl.Series("collective", ids, dtype=pl.Float64).fill_nan(None).cast(pl.Int64)
    return Ties(column, loose, apart_ns(spans, column))


def _candidates(spans: pl.DataFrame) -> pl.DataFrame:
    # What has no time, or no end, can be tied by its number alone.
    usable = ~flagged(Flag.UNTIMED | Flag.UNFINISHED) | (
        flagged(Flag.UNTIMED) & pl.col("sequence").is_not_null()
    )
    return (
        spans.with_row_index("row")
        .filter(of_kind(_TIED) & ~flagged(Flag.BEFORE_WINDOW) & usable)
        .select(
            pl.col("row").cast(pl.Int64),
            "rank",
            pl.col("group").cast(pl.String),
            pl.concat_str(
                pl.col("kind").cast(pl.String),
                pl.col("elements"),
                pl.col("dtype").cast(pl.String),
                separator="|",
                ignore_nulls=True,
            ).alias("signature"),
            pl.col("sequence").cast(pl.Float64).fill_null(float("nan")),
            "start_ns",
            "end_ns",
        )
    )


def _lane(rows: pl.DataFrame) -> _Lane:
    return _Lane(
        rows["row"].to_numpy(),
        rows["signature"].to_numpy(),
        rows["sequence"].to_numpy(),
        rows["start_ns"].to_numpy(),
        rows["end_ns"].to_numpy(),
    )


def _tie_group(
    lanes: list[_Lane], ids: NDArray[np.float64], next_id: int, *, one_clock: bool
) -> tuple[int, int]:
    reference = max(lanes, key=lambda lane: len(lane.rows))
    places = _by_sequence(lanes) or [
        _places(reference, lane, one_clock=one_clock) for lane in lanes
    ]
    loose = 0
    for lane, place in zip(lanes, places, strict=True):
        known = place >= 0
        ids[lane.rows[known]] = place[known] + next_id
        loose += int((~known).sum())
    return next_id + int(max(place.max(initial=-1) for place in places)) + 1, loose


def _by_sequence(lanes: list[_Lane]) -> list[NDArray[np.int64]] | None:
    numbers = [lane.sequence for lane in lanes]
    if any(np.isnan(n).any() or len(np.unique(n)) < len(n) for n in numbers):
        return None
    _, places = np.unique(np.concatenate(numbers), return_inverse=True)
    ends = np.cumsum([len(n) for n in numbers])[:-1]
    return [np.asarray(part, dtype=np.int64) for part in np.split(places, ends)]


def _places(reference: _Lane, lane: _Lane, *, one_clock: bool) -> NDArray[np.int64]:
    index = np.arange(len(lane.rows), dtype=np.int64)
    if lane is reference:
        return index
    place = index + _shift(reference, lane, one_clock=one_clock)
    inside = (place >= 0) & (place < len(reference.rows))
    same = np.zeros(len(index), dtype=bool)
    same[inside] = reference.signature[place[inside]] == lane.signature[inside]
    return np.where(same, place, -1)


def _shift(reference: _Lane, lane: _Lane, *, one_clock: bool) -> int:
    reach = min(_REACH, max(len(reference.rows), len(lane.rows)))
    shifts = sorted(range(-reach, reach + 1), key=abs)
    scores = [_score(reference, lane, shift) for shift in shifts]
    overlapping = max(overlap for overlap, _ in scores)
    # Clocks that disagree make overlap a matter of chance; then only the order of sizes speaks.
    by_time = one_clock and overlapping >= _SURE * min(len(lane.rows), len(reference.rows))
    best = max(range(len(shifts)), key=lambda i: scores[i] if by_time else (scores[i][1], 0))
    return shifts[best]


def _score(reference: _Lane, lane: _Lane, shift: int) -> tuple[int, int]:
    low, high = max(0, -shift), min(len(lane.rows), len(reference.rows) - shift)
    if low >= high:
        return 0, 0
    mine, theirs = slice(low, high), slice(low + shift, high + shift)
    same = lane.signature[mine] == reference.signature[theirs]
    meet = (lane.start[mine] <= reference.end[theirs]) & (reference.start[theirs] <= lane.end[mine])
    return int((same & meet).sum()), int(same.sum())


def apart_ns(spans: pl.DataFrame, collective: pl.Series) -> int:
    """By how much the clocks of the ranks disagree at least: collectives that end before all came."""
    gaps = (
        spans.with_columns(collective)
        .filter(
            pl.col("collective").is_not_null()
            & of_kind(ALL_WAIT)
            & ~flagged(Flag.UNTIMED | Flag.UNFINISHED)
        )
        .group_by("collective")
        .agg(gap=pl.col("start_ns").max() - pl.col("end_ns").min())["gap"]
    )
    wrong = gaps.filter(gaps > 0)
    largest = wrong.max()
    if len(wrong) <= _TOLERATED * len(gaps) or not isinstance(largest, int):
        return 0
    return largest
