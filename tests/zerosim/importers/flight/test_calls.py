"""Entries of a flight recorder: kind, size, order, and whether they ended."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.importers.flight.calls import Call, read_calls, sequences
from zerosim.kinds import Kind
from zerosim.trace import Flag

CREATED = 1_758_610_505_592_849_034


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "record_id": 0,
        "pg_id": 6,
        "process_group": ("43", "TENSOR_MODEL_PARALLEL_GROUP"),
        "collective_seq_id": 7,
        "p2p_seq_id": 0,
        "op_id": 7,
        "profiling_name": "nccl:_all_gather_base",
        "time_created_ns": CREATED,
        "input_sizes": [[512, 2]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[2048]],
        "output_dtypes": ["BFloat16"],
        "state": "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 600_000,
        "is_p2p": False,
        **changes,
    }


def call(completed: int | None = None, **changes: Any) -> Call:
    calls, lost = read_calls([entry(**changes)], {} if completed is None else {"6": completed})
    assert lost == ()
    return calls[0]


@pytest.mark.parametrize(
    ("name", "kind", "elements"),
    [
        ("nccl:_all_gather_base", Kind.ALL_GATHER, 2048),
        ("nccl:_reduce_scatter_base", Kind.REDUCE_SCATTER, 1024),
        ("nccl:all_reduce", Kind.ALL_REDUCE, 1024),
        ("gloo:all_reduce", Kind.ALL_REDUCE, 1024),
        ("nccl:all_to_all", Kind.ALL_TO_ALL, 1024),
        ("nccl:broadcast", Kind.BROADCAST, 1024),
        ("nccl:reduce", Kind.REDUCE, 1024),
        ("nccl:gather", Kind.GATHER, 2048),
        ("nccl:send 0->3", Kind.P2P, 1024),
        ("nccl:recv 0<-3", Kind.P2P, 2048),
        ("nccl:coalesced", Kind.COLLECTIVE, 1024),
        ("nccl:all_reduce_barrier", Kind.ALL_REDUCE, 1024),
        ("gloo:barrier", Kind.BARRIER, None),
    ],
)
def test_the_name_says_the_kind_and_which_side_is_the_full_tensor(
    name: str, kind: Kind, elements: int | None
) -> None:
    found = call(profiling_name=name)
    assert (found.kind, found.elements) == (kind, elements)
    assert found.nbytes == (None if elements is None else 2 * elements)


def test_several_tensors_count_together() -> None:
    found = call(
        profiling_name="nccl:all_reduce", input_sizes=[[3], [2, 2], []], input_dtypes=["Float"] * 3
    )
    assert (found.elements, found.nbytes, found.dtype) == (8, 32, "float32")


def test_tensors_of_several_dtypes_have_bytes_but_no_dtype() -> None:
    found = call(
        profiling_name="nccl:all_reduce", input_sizes=[[3], [4]], input_dtypes=["Float", "Half"]
    )
    assert (found.elements, found.nbytes, found.dtype) == (7, 20, None)


@pytest.mark.parametrize(
    "sizes",
    [
        None,
        [],
        "[[4]]",
        [4],
        [["4"]],
        [[-4]],
        [[True]],
        [[2**61], [2**61]],
        [[1]] * 5000,
        [[1] * 99],
    ],
)
def test_a_size_that_is_none_is_unknown_and_never_0(sizes: Any) -> None:
    found = call(profiling_name="nccl:all_reduce", input_sizes=sizes)
    assert (found.elements, found.nbytes, found.dtype) == (None, None, None)


def test_a_dtype_nobody_knows_leaves_the_bytes_unknown() -> None:
    found = call(output_dtypes=["Float3"])
    assert (found.elements, found.nbytes, found.dtype) == (2048, None, "Float3")


def test_without_a_duration_a_call_has_no_time_but_that_of_the_host() -> None:
    found = call(time_discovered_started_ns=CREATED + 5, time_discovered_completed_ns=CREATED + 9)
    assert (found.created_ns, found.start_ns, found.end_ns) == (CREATED, CREATED, CREATED)
    assert Flag.UNTIMED in found.flags


def test_a_duration_is_placed_before_the_end_that_the_watchdog_saw() -> None:
    found = call(duration_ms=2.5, time_discovered_completed_ns=CREATED + 10_000_000)
    assert found.start_ns == CREATED + 7_500_000
    assert found.end_ns == CREATED + 10_000_000
    assert found.flags == Flag(0)


def test_a_duration_begins_no_earlier_than_the_host_called() -> None:
    for seen in (None, 0, CREATED + 1_000_000):
        found = call(duration_ms=2.5, time_discovered_completed_ns=seen)
        assert (found.start_ns, found.end_ns) == (CREATED, CREATED + 2_500_000)


@pytest.mark.parametrize("duration", [None, -1, float("nan"), float("inf"), "3", True, 1e300])
def test_a_duration_that_is_none_is_no_time(duration: Any) -> None:
    assert Flag.UNTIMED in call(duration_ms=duration).flags


@pytest.mark.parametrize(
    ("changes", "completed", "ended"),
    [
        ({}, None, False),
        ({"retired": True}, None, True),
        ({"state": "completed"}, None, True),
        ({"state": "started"}, None, False),
        ({}, 7, True),
        ({}, 6, False),
        ({"retired": "true"}, None, False),
    ],
)
def test_what_is_retired_completed_or_counted_as_done_has_ended(
    changes: dict[str, Any], completed: int | None, ended: bool
) -> None:
    assert (Flag.UNFINISHED not in call(completed, **changes).flags) is ended


def test_a_count_of_collectives_says_nothing_of_sends_in_the_same_group() -> None:
    send = entry(profiling_name="nccl:send 0->1", is_p2p=True, p2p_seq_id=2)
    alone, _ = read_calls([send], {"6": 7})
    assert Flag.UNFINISHED not in alone[0].flags
    both, _ = read_calls([send, entry()], {"6": 7})
    assert all(Flag.UNFINISHED in found.flags for found in both)


def test_calls_are_ordered_by_record_where_all_have_a_number() -> None:
    calls, _ = read_calls([entry(record_id=9), entry(record_id=8)], {})
    assert [found.number for found in calls] == [8, 9]
    calls, _ = read_calls([entry(record_id=9), entry(record_id=None)], {})
    assert [found.number for found in calls] == [9, None]


def test_entries_without_name_or_time_are_counted_out() -> None:
    lost = [{}, entry(profiling_name=None), entry(time_created_ns=0), "text", None, [1]]
    calls, places = read_calls([entry(), *lost], {})
    assert (len(calls), places) == (1, (1, 2, 3, 4, 5, 6))


def test_numbers_written_as_text_are_numbers() -> None:
    found = call(collective_seq_id="7", time_created_ns=str(CREATED), pg_id="6", record_id="3")
    assert (found.counted, found.created_ns, found.group_id, found.number) == (7, CREATED, "6", 3)


def test_older_dumps_count_by_seq_id_and_name_no_group() -> None:
    old = entry(seq_id=4)
    del old["collective_seq_id"], old["process_group"]
    calls, _ = read_calls([old], {})
    assert (calls[0].counted, calls[0].group) == (4, "group 6")


def test_a_number_that_two_collectives_share_ties_neither() -> None:
    calls, _ = read_calls(
        [entry(record_id=i, collective_seq_id=s) for i, s in enumerate((1, 2, 2, 3))], {}
    )
    assert sequences(calls) == [1, None, None, 3]


def test_sends_have_no_number_among_collectives() -> None:
    calls, _ = read_calls([entry(profiling_name="nccl:send 0->1", p2p_seq_id=4)], {})
    assert sequences(calls) == [None]
