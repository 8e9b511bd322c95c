"""What a file says of itself, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.importers.kineto import header as heads
from zerosim.importers.kineto import sniff
from zerosim.importers.kineto.called import called_spans
from zerosim.importers.kineto.events import Slice, sort_events
from zerosim.importers.recording import Window, is_absolute
from zerosim.trace import Flag, Group


def test_rank_and_world_are_read() -> None:
    header = {"distributedInfo": {"rank": 3, "world_size": 8}}
    assert (heads.rank(header), heads.world_size(header)) == (3, 8)


@pytest.mark.parametrize(
    "info", [None, [], {}, {"rank": None}, {"rank": -1}, {"rank": True}, {"rank": 2**24}]
)
def test_a_file_without_a_rank_has_none(info: object) -> None:
    assert heads.rank({"distributedInfo": info}) is None


def test_a_rank_written_as_text_is_a_number() -> None:
    assert heads.rank({"distributedInfo": {"rank": "12"}}) == 12


def test_groups_are_read_and_a_cut_list_of_ranks_is_none() -> None:
    config = [
        {"pg_name": "0", "pg_size": 2, "ranks": [0, 1]},
        {"pg_name": "7", "pg_size": 64, "ranks": [0, 1, 2]},
        {"pg_name": "8", "ranks": [4, 5]},
        {"pg_name": "9"},
        "odd",
    ]
    assert heads.groups({"distributedInfo": {"pg_config": config}}) == (
        Group("0", 2, (0, 1)),
        Group("7", 64, None),
        Group("8", 2, (4, 5)),
    )


def test_the_device_is_that_of_most_kernels() -> None:
    def kernel(device: object) -> Slice:
        return Slice(0, 1, "k", "kernel", (0, 7), {"device": device}, 0)

    assert heads.device_of([kernel(3), kernel(3), kernel(0), kernel(None)]) == 3
    assert heads.device_of([]) is None
    header: dict[str, Any] = {"deviceProperties": [{"id": 0, "name": "A"}, {"id": 3, "name": "B"}]}
    assert heads.device_name(header, 3) == "B"
    assert heads.device_name(header, 5) is None
    assert heads.device_name({}, None) is None


def test_a_device_that_is_not_listed_has_the_name_that_all_others_bear() -> None:
    """A process that sees one GPU of eight lists it as the first, whatever its kernels say."""
    alike: dict[str, Any] = {"deviceProperties": [{"id": n, "name": "A"} for n in (0, 1)]}
    assert heads.device_name(alike, 2) == "A"
    assert heads.device_name(alike, None) is None
    odd: dict[str, Any] = {"deviceProperties": [{"id": [0], "name": "A"}, 7, {"id": 1}]}
    assert heads.device_name(odd, 2) is None


def test_only_epoch_times_are_absolute() -> None:
    assert is_absolute(1_759_300_074_000_000_000)
    assert not is_absolute(5_000_000)
    assert not is_absolute(None)


def test_a_base_that_is_no_number_is_none() -> None:
    assert heads.base_ns({"baseTimeNanoseconds": 5}) == 5
    assert heads.base_ns({"baseTimeNanoseconds": "5"}) == 0
    assert heads.base_ns({}) == 0


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (b'{"schemaVersion": 1, "traceEvents": []}', True),
        (b'\xef\xbb\xbf {"traceEvents": []}', True),
        (b'[{"ph": "X"}]', True),
        ('{"traceEvents": []}'.encode("utf-16"), True),
        (b'{"schema": "1.1.1", "nodes": []}', False),
        (b'["a", "b"]', False),
        (b"traceEvents", False),
        (b"", False),
    ],
)
def test_a_chrome_trace_is_told_by_its_content(data: bytes, known: bool) -> None:
    assert sniff(data) is known


def test_calls_without_a_device_are_counted_but_not_timed() -> None:
    known = {"Collective name": "allreduce", "In msg nelems": 4, "dtype": "Float"}
    events = sort_events(
        [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "record_param_comms",
                "ts": 5,
                "dur": 9,
                "args": known,
            },
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "aten::mul",
                "pid": 1,
                "tid": 1,
                "ts": 2,
                "dur": 1,
            },
        ],
        0,
    )
    frame = called_spans(events, (Window(4, 0, 6000),))
    assert frame["kind"].to_list() == ["host", "all_reduce"]
    assert frame["start_ns"].to_list() == [2000, 5000]
    assert frame["end_ns"].to_list() == [3000, 5000]
    assert frame["flags"].to_list() == [0, Flag.UNTIMED]
    assert frame["elements"].to_list() == [None, 4]
    assert frame["step"].to_list() == [4, 4]
