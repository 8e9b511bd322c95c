"""Measured series in a calibration document: checked when read, the same when written again."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.errors import InputError
from zerosim.hardware.measured_series import series_from, series_to

ONE: dict[str, Any] = {
    "kind": "all_gather",
    "n_ranks": 8,
    "n_nodes": 1,
    "source": "a log",
    "nbytes": [1024, 2048],
    "seconds": [1e-5, 2e-5],
}


def test_what_is_written_is_read_as_the_same() -> None:
    found = series_from([ONE, ONE | {"n_ranks": 4}], "c")
    assert series_from(series_to(found), "c") == found
    assert found[0].times == ((1024, 1e-5), (2048, 2e-5))


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({}, r"give tables \[\[collective\]\]"),
        ([3], r"c\[0\] is '3': give a table"),
        ([ONE] * 201, "has 201 series: give at most 200"),
        ([ONE, ONE], r"c\[1\] is all_gather over 8 ranks on 1 nodes, as one before it"),
        ([ONE | {"colour": "red"}], "no field of c"),
        ([{k: v for k, v in ONE.items() if k != "seconds"}], "has no seconds"),
        ([ONE | {"kind": "gossip"}], "no kind of c"),
        ([ONE | {"source": " "}], "say who measured it"),
        ([ONE | {"n_ranks": 1}], "n_ranks is 1: give 2"),
        ([ONE | {"n_nodes": True}], "n_nodes is True"),
        ([ONE | {"nbytes": [1024]}], "has 1 nbytes and 2 seconds"),
        ([ONE | {"nbytes": "all"}], "nbytes is no list"),
        ([ONE | {"nbytes": [1.5, 2]}], r"nbytes is 1\.5"),
        ([ONE | {"nbytes": [2048, 1024]}], "give ascending sizes"),
        ([ONE | {"seconds": [1e-5, 0]}], "give a finite number above 0"),
        ([ONE | {"seconds": [1e-5, float("inf")]}], "give a finite number above 0"),
    ],
)
def test_a_series_that_makes_no_sense_is_refused(record: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        series_from(record, "c")
