"""Execution traces with device ops linked in: their times, and the collectives that they carry out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zerosim.importers import execution
from zerosim.importers.choice import ALL
from zerosim.importers.content import Content
from zerosim.importers.recording import Recording

COLUMNS = ("stream", "kind", "name", "step", "elements", "issued_ns", "start_ns", "end_ns", "flags")


def node(number: int, name: str, parent: int = 1, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"values": [], "shapes": [], "types": []}
    attrs = [{"name": k, "value": v} for k, v in more.pop("attrs", {}).items()]
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": empty,
        "outputs": empty,
        "attrs": attrs,
        **more,
    }


def kernel(number: int, name: str, parent: int, start: Any, length: Any) -> dict[str, Any]:
    return node(
        *(number, name, parent),
        cat="kernel",
        stream=7,
        ts=start,
        inclusive_dur=length,
        exclusive_dur=1,
    )


CALL = {"collective_name": "allreduce", "dtype": "Float", "in_msg_nelems": 256, "pg_name": "0"}


def recording(*nodes: Any) -> Recording:
    raw = json.dumps({"schema": "1.1.1-chakra.0.0.4", "start_ts": 5, "nodes": nodes}).encode()
    return execution.parse(Content(Path("et_0.json"), raw), ALL)[0]


def rows(found: Recording) -> list[tuple[Any, ...]]:
    return list(found.spans.select(COLUMNS).iter_rows())


def test_device_ops_bear_the_times_that_were_linked() -> None:
    found = recording(
        node(2, "ProfilerStep#3", ts=100, inclusive_dur=90),
        node(3, "aten::mm", 2, ts=110, inclusive_dur=5.5),
        kernel(4, "gemm", 3, 120.001, 30),
        kernel(5, "Memcpy DtoD", 3, 160, 2),
    )
    assert rows(found) == [
        ("host", "host", "aten::mm", 3, None, 110_000, 110_000, 115_500, 0),
        ("stream 7", "other", "gemm", 3, None, 110_000, 120_001, 150_001, 0),
        ("stream 7", "memory_op", "Memcpy DtoD", 3, None, 110_000, 160_000, 162_000, 0),
    ]


def test_a_collective_is_its_kernel_with_the_size_of_its_call() -> None:
    found = recording(
        node(2, "c10d::allreduce_", ts=99, inclusive_dur=9),
        node(3, "record_param_comms", 2, ts=100, inclusive_dur=5, attrs=CALL),
        kernel(4, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 3, 120, 30),
    )
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
    assert rows(found) == [
        ("stream 7", "all_reduce", name, None, 256, 100_000, 120_000, 150_000, 0)
    ]
    assert found.spans["nbytes"].to_list() == [1024]


def test_a_call_whose_kernel_is_missing_stays_untimed() -> None:
    found = recording(node(3, "record_param_comms", ts=100, attrs=CALL))
    assert rows(found) == [("calls", "all_reduce", "allreduce", None, 256, *[100_000] * 3, 1)]


def test_a_kernel_of_another_kind_than_the_call_is_what_its_name_says() -> None:
    found = recording(
        node(3, "record_param_comms", ts=100, attrs=CALL),
        kernel(4, "ncclDevKernel_ReduceScatter_Sum", 3, 120, 30),
    )
    assert [(r[1], r[4]) for r in rows(found)] == [("reduce_scatter", None)]


def test_rows_stand_in_order_of_issue() -> None:
    found = recording(
        node(2, "aten::mm", ts=300, inclusive_dur=1), node(3, "aten::add", ts=200, inclusive_dur=1)
    )
    assert [r[2] for r in rows(found)] == ["aten::add", "aten::mm"]


def test_a_kernel_seen_before_its_call_is_issued_no_later_than_it_began() -> None:
    found = recording(node(2, "aten::mm", ts=300, inclusive_dur=9), kernel(3, "gemm", 2, 299, 9))
    assert [(r[5], r[6]) for r in rows(found)] == [(299_000, 299_000), (300_000, 300_000)]


@pytest.mark.parametrize("odd", [0, None, -1, "5", float("nan"), 1e300, True, [], 2**60])
def test_a_kernel_without_a_time_is_untimed_where_it_was_issued(odd: Any) -> None:
    found = recording(node(2, "aten::mm", ts=300, inclusive_dur=9), kernel(3, "gemm", 2, odd, 9))
    assert [r[-4:] for r in rows(found)][1] == (300_000, 300_000, 300_000, 1)


def test_an_attribute_called_stream_makes_no_device_op() -> None:
    found = recording(node(2, "aten::mm", ts=300, inclusive_dur=9, attrs={"stream": 0}))
    assert [r[0] for r in rows(found)] == ["host"]
