"""timeline.json and samples.bin: what spans share, who stands for whom, steps, memory, addresses."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from tests.app.encoded import BASE, decode, encoded, header, trace_of, two_ranks
from zerosim.trace import RankClass, StepWindow
from zerosim_app import spansbin
from zerosim_app.spansbin import encode


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
