"""spans.bin and its JSON: every column exact, sorted, aligned, and unknown where nothing is known."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from zerosim.errors import InputError
from zerosim.kinds import KINDS
from zerosim.trace import (
    Clock,
    Group,
    Meta,
    RankClass,
    StepWindow,
    Trace,
    make_trace,
)
from zerosim_app import spansbin
from zerosim_app.spansbin import Encoded, encode

COLUMNS = ("rank", "stream", "kind", "name", "start_ns", "end_ns")
BASE = 1_700_000_000_000_000_000
"""A wall-clock time in ns: too big for a double, so that a lost base would be seen."""


def trace_of(
    rows: list[tuple[Any, ...]],
    extra: dict[str, list[Any]] | None = None,
    samples: dict[str, list[Any]] | None = None,
    **meta: Any,
) -> Trace:
    columns: dict[str, list[Any]] = {
        name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)
    }
    facts: dict[str, Any] = {"name": "made", "source": "simulated", "world_size": 2, **meta}
    return make_trace({**columns, **(extra or {})} if rows else {}, Meta(**facts), samples)


def two_ranks(**meta: Any) -> Trace:
    """AG0 on two ranks, the second arriving 30 ns later, then F0; rank 1's rows stand first."""
    rows = [
        (1, "all_gather", "all_gather", "AG0", BASE + 40, BASE + 100),
        (1, "compute", "forward", "F0", BASE + 100, BASE + 150),
        (0, "all_gather", "all_gather", "AG0", BASE + 10, BASE + 100),
        (0, "compute", "forward", "F0", BASE + 100, BASE + 140),
    ]
    extra: dict[str, list[Any]] = {
        "issued_ns": [BASE + 5, None, BASE, BASE + 2],
        "collective": [10**12, None, 10**12, None],
        "group": ["world", None, "world", None],
        "nbytes": [4096, None, 4096, None],
        "unit": ["0", "0", "0", "0"],
        "flags": [0, 2, 0, 0],
    }
    return trace_of(rows, extra, **meta)


def decode(encoded: Encoded) -> dict[str, NDArray[Any]]:
    """The plain way to read spans.bin, from the layout in Note [spans.bin]."""
    magic, version, n, rows, collectives, flags = struct.unpack_from("<4s5I", encoded.spans)
    assert (magic, version) == (b"ZSPN", 1)
    wide = bool(flags & 1)
    at = 32
    columns = {}
    for name, dtype, length in (
        ("start", "<f8", n),
        ("transfer", "<f8", collectives),
        ("duration", "<f8" if wide else "<u4", n),
        ("lead", "<f8" if wide else "<i4", n),
        ("rowOffsets", "<u4", rows + 1),
        ("index", "<u4", n),
        ("collective", "<i4", n),
        ("op", "<u4", n),
        ("kind", "u1", n),
        ("flags", "u1", n),
    ):
        assert at % np.dtype(dtype).itemsize == 0, name
        columns[name] = np.frombuffer(encoded.spans, dtype, length, at)
        at += columns[name].nbytes
    assert at == len(encoded.spans)
    return columns


def header(encoded: Encoded) -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(encoded.timeline)
    return record


def encoded(trace: Trace) -> Encoded:
    return encode(trace, "all", "all", "made")


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


def test_what_spans_have_in_common_is_written_once() -> None:
    made = encoded(two_ranks())
    ops, op_of = header(made)["ops"], decode(made)["op"]
    assert len(ops["name"]) == 2
    assert [ops["name"][op] for op in op_of] == ["F0", "AG0", "F0", "AG0"]
    gather = int(op_of[1])
    assert {column: ops[column][gather] for column in ops} == {
        "name": "AG0",
        "kind": "all_gather",
        "unit": "0",
        "stream": "all_gather",
        "group": "world",
        "dtype": None,
        "nbytes": 4096,
        "wire_bytes": None,
    }


def test_too_many_different_ops_are_told_apart_less_finely(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(0, "compute", "forward", f"F{i % 3}", i * 10, i * 10 + 5) for i in range(12)]
    trace = trace_of(rows, {"nbytes": list(range(12))})
    monkeypatch.setattr(spansbin, "MAX_OPS", 3)
    ops = header(encoded(trace))["ops"]
    assert sorted(ops["name"]) == ["F0", "F1", "F2"]
    assert ops["nbytes"] == [None] * 3
    monkeypatch.setattr(spansbin, "MAX_OPS", 2)
    assert header(encoded(trace))["ops"]["name"] == ["forward"]


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


def test_equal_ranks_are_one_group_until_all_are_asked_for() -> None:
    trace = trace_of(
        [(0, "compute", "other", "x", 0, 9)], classes=(RankClass(0, ((0, 15),)),), world_size=16
    )
    folded = header(encode(trace, "classes", "classes", "made"))
    assert [group["label"] for group in folded["groups"]] == ["ranks 0-15"]
    assert folded["groups"][0]["members"] == [[0, 15]]
    assert (folded["n_ranks"], folded["n_classes"]) == (16, 1)
    made = encode(trace, "all", "all", "made")
    assert len(header(made)["groups"]) == 16
    assert decode(made)["index"].tolist() == [0] * 16


def test_a_step_lasts_from_the_first_rank_to_the_last_and_the_slowest_is_told() -> None:
    steps = (
        StepWindow(0, 2, BASE + 20, BASE + 90),
        StepWindow(1, 2, BASE + 10, BASE + 75),
        StepWindow(0, 1, BASE + 10, BASE + 20),
    )
    about = header(encoded(two_ranks(steps=steps)))
    assert about["steps"] == [[1, 0, 10, 10], [2, 0, 80, 70]]
    assert about["main_step"] == 2


def test_without_steps_there_is_no_main_one() -> None:
    about = header(encoded(two_ranks()))
    assert (about["steps"], about["main_step"]) == ([], None)


def test_memory_is_one_series_a_rank_in_order_of_time() -> None:
    samples: dict[str, list[Any]] = {
        "time_ns": [BASE + 30, BASE + 10, BASE + 10, BASE + 10],
        "rank": [0, 0, 1, 0],
        "counter": ["memory.allocated"] * 3 + ["memory.reserved"],
        "value": [300, 100, 50, 999],
    }
    trace = trace_of([(0, "compute", "other", "x", BASE + 10, BASE + 40)], samples=samples)
    made = encode(trace, "all", "all", "made")
    assert header(made)["memory"] == [
        {"rank": 0, "counter": "memory.allocated", "offset": 0, "n": 2, "peak": 300}
    ]
    magic, version, n = struct.unpack_from("<4s2I", made.samples)
    assert (magic, version, n) == (b"ZSMP", 1, 2)
    assert np.frombuffer(made.samples, "<f8", 4, 16).tolist() == [0, 20, 100, 300]


def test_what_the_device_uses_is_shown_rather_than_what_the_host_allocated() -> None:
    samples: dict[str, list[Any]] = {
        "time_ns": [0, 1],
        "rank": [0, 0],
        "counter": ["memory.allocated", "memory.in_use"],
        "value": [9, 7],
    }
    trace = trace_of([(0, "compute", "other", "x", 0, 9)], samples=samples)
    series = header(encoded(trace))["memory"][0]
    assert (series["counter"], series["n"], series["peak"]) == ("memory.in_use", 1, 7)


def test_the_next_best_counter_is_shown_where_allocated_is_unknown() -> None:
    samples: dict[str, list[Any]] = {
        "time_ns": [0],
        "rank": [0],
        "counter": ["memory.reserved"],
        "value": [7],
    }
    trace = trace_of([(0, "compute", "other", "x", 0, 9)], samples=samples)
    assert header(encoded(trace))["memory"][0]["counter"] == "memory.reserved"


def test_a_run_without_spans_or_samples_is_encoded() -> None:
    made = encode(trace_of([]), "classes", "classes", "made")
    assert decode(made)["rowOffsets"].tolist() == [0]
    assert header(made)["memory"] == []
    assert header(made)["duration_ns"] == 1


def test_the_hash_follows_the_content_and_stands_in_the_addresses() -> None:
    first, again = encoded(two_ranks()), encoded(two_ranks())
    other = encode(two_ranks(), (0,), "0", "made")
    assert first == again
    assert first.etag != other.etag
    assert header(first)["spans_url"] == f"spans.bin?ranks=all&v={first.etag}"
    assert header(first)["samples_url"] == f"samples.bin?ranks=all&v={first.etag}"


def test_names_that_look_like_markup_stay_text() -> None:
    name = '<img src=x onerror="alert(1)">'
    made = encoded(trace_of([(0, "compute", "other", name, 0, 9)]))
    assert header(made)["ops"]["name"] == [name]
