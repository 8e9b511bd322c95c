"""A Chakra file gives its ops, with their sizes, and with times as far as it has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zerosim.chakra_schema import NodeType
from zerosim.errors import TraceFileError
from zerosim.importers import read, recording
from zerosim.importers.chakra import sniff
from zerosim.importers.choice import Choice
from zerosim.trace import Flag, Trace

COMP, COLL = NodeType.COMP, NodeType.COMM_COLL
MICROSECOND = 1000


def rows(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    return trace.spans.select(pl.col(columns)).rows()


@pytest.fixture
def timed(chakra: Any) -> Any:
    trace = chakra()
    trace.node(COMP, "gemm", start_time_micros=10, duration_micros=5, is_cpu_op=False, stream=7)
    trace.node(
        *(COLL, "gather"),
        start_time_micros=12,
        duration_micros=8,
        is_cpu_op=False,
        comm_type=2,
        comm_size=1024,
        pg_name="3",
    )
    trace.node(COMP, "aten::add", start_time_micros=9, duration_micros=2, is_cpu_op=True, tid=1)
    return trace


def test_a_trace_literal_gives_its_rows(timed: Any, tmp_path: Path) -> None:
    (tmp_path / "comm_group.json").write_text('{"3": [0, 1, 2, 3]}')
    trace = read([timed.write(tmp_path / "run.2.et")])
    assert rows(trace, "rank", "stream", "kind", "name", "start_ns", "end_ns") == [
        (2, "stream 7", "other", "gemm", 10_000, 15_000),
        (2, "collectives", "all_gather", "gather", 12_000, 20_000),
        (2, "host 1", "host", "aten::add", 9_000, 11_000),
    ]
    assert rows(trace, "group", "nbytes", "flags", "issued_ns", "step")[1] == (
        *("3", 4096, 0),
        *(None, None),
    )
    assert trace.meta.quality.events == 3
    assert trace.meta.quality.warnings == ()


def test_an_all_gather_of_unknown_group_counts_what_one_rank_gives_and_says_so(
    timed: Any, tmp_path: Path
) -> None:
    trace = read([timed.write(tmp_path / "run.0.et")])
    assert rows(trace, "nbytes")[1] == (1024,)
    assert trace.meta.quality.warnings == (
        "'run.0.et' has 1 all-gather in a group of unknown size: nbytes is what one rank gives",
    )


def test_without_start_times_ops_are_laid_out_by_what_they_wait_for(
    chakra: Any, tmp_path: Path
) -> None:
    trace = chakra()
    trace.node(COMP, "F0", duration_micros=3)
    trace.node(COLL, "AR0", data_deps=[0], comm_size=8, comm_type=0, duration_micros=4)
    trace.node(COMP, "F1", data_deps=[0], duration_micros=2)
    trace.node(COMP, "OPT", data_deps=[1, 99], duration_micros=1)
    found = read([trace.write(tmp_path / "run.0.et")])
    assert rows(found, "name", "start_ns", "end_ns") == [
        ("F0", 0, 3_000),
        ("AR0", 3_000, 7_000),
        ("F1", 3_000, 5_000),
        ("OPT", 7_000, 8_000),
    ]
    assert any("laid out" in text for text in found.meta.quality.unknown)


def test_what_is_to_be_simulated_has_no_time(chakra: Any, tmp_path: Path) -> None:
    trace = chakra(version=None)
    trace.node(COMP, "F0", duration_micros=3)
    trace.node(COLL, "AR0", ctrl_deps=[0], comm_size=8)
    found = read([trace.write(tmp_path / "run.0.et")])
    assert rows(found, "kind", "start_ns", "end_ns", "nbytes", "flags") == [
        ("other", 0, 3_000, None, 0),
        ("all_reduce", 3_000, 3_000, 8, int(Flag.UNTIMED)),
    ]
    assert found.meta.quality.warnings == ("'run.0.et' has 1 op without a time",)


def test_nodes_that_wait_for_each_other_are_laid_out_and_counted(
    chakra: Any, tmp_path: Path
) -> None:
    trace = chakra()
    trace.node(COMP, "A", data_deps=[1], duration_micros=1)
    trace.node(COMP, "B", data_deps=[0], duration_micros=1)
    trace.node(COMP, "C", data_deps=[2], duration_micros=1)
    found = read([trace.write(tmp_path / "run.0.et")])
    assert found.spans.height == 3
    assert found.meta.quality.warnings == (
        "'run.0.et' has 2 nodes that wait for each other: laid out in order",
    )


def test_protobuf_leaves_out_zeros_and_unknown_stays_unknown(chakra: Any, tmp_path: Path) -> None:
    trace = chakra()
    trace.node(COLL, "collective", start_time_micros=1, duration_micros=1)
    trace.node(COLL, "ncclKernel_Broadcast_RING", start_time_micros=2, duration_micros=1)
    trace.node(COLL, "x", start_time_micros=3, duration_micros=1, comm_type=77, comm_size=-1)
    found = read([trace.write(tmp_path / "run.0.et")])
    assert rows(found, "kind", "nbytes") == [
        ("all_reduce", None),
        ("broadcast", None),
        ("collective", None),
    ]
    assert found.meta.quality.unsized == 3


def test_sizes_are_read_in_every_type_of_number(chakra: Any, tmp_path: Path) -> None:
    trace = chakra()
    node = trace.node(COLL, "AR", start_time_micros=1, duration_micros=1, comm_type=0)
    node.attr.add(name=b"comm_size").uint64_val = 2**40
    found = read([trace.write(tmp_path / "run.0.et")])
    assert rows(found, "kind", "nbytes") == [("all_reduce", 2**40)]


def test_the_call_of_a_collective_on_the_host_is_none(chakra: Any, tmp_path: Path) -> None:
    trace = chakra()
    trace.node(COLL, "c10d::allreduce_", is_cpu_op=True, start_time_micros=1, duration_micros=1)
    trace.node(NodeType.METADATA, "## process_group:init ##")
    found = read([trace.write(tmp_path / "run.0.et")])
    assert rows(found, "kind", "stream") == [("host", "host")]
    assert found.meta.quality.events == 2


def test_groups_of_metadata_nodes_are_known(chakra: Any, tmp_path: Path) -> None:
    trace = chakra()
    node = trace.node(NodeType.METADATA, "## process_group:init ##")
    node.inputs.values = b"""['[{"pg_name": "1", "ranks": [0, 2], "group_size": 2}]']"""
    trace.node(
        COLL, "AG", start_time_micros=1, duration_micros=1, comm_type=2, comm_size=10, pg_name="1"
    )
    found = read([trace.write(tmp_path / "run.0.et")])
    assert [(g.name, g.size, g.ranks) for g in found.meta.groups] == [("1", 2, (0, 2))]
    assert rows(found, "nbytes") == [(20,)]


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_file_that_ends_early_is_refused_with_the_byte(
    timed: Any, tmp_path: Path, cut: int
) -> None:
    raw = timed.raw()
    path = tmp_path / "run.0.et"
    path.write_bytes(raw[:-cut])
    with pytest.raises(TraceFileError, match="ends inside a node at byte"):
        read([path])


def test_salvage_keeps_whole_nodes_and_counts_the_lost_one(timed: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.0.et"
    path.write_bytes(timed.raw()[:-3])
    found = read([path], choice=Choice(salvage=True))
    assert (found.spans.height, found.meta.quality.lost) == (2, 1)
    (place,) = found.meta.quality.places
    assert place.byte == len(timed.raw()) - len(timed.nodes[-1].SerializeToString()) - 1


def test_a_damaged_node_is_left_out_and_counted(timed: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.0.et"
    last = timed.nodes[-1].SerializeToString()
    path.write_bytes(timed.raw()[: -len(last)] + b"\x07" * len(last))
    found = read([path])
    assert (found.spans.height, found.meta.quality.skipped, found.meta.quality.events) == (2, 1, 3)
    assert found.meta.quality.places[0].what == "no node: its bytes cannot be decoded"


def test_a_name_that_is_no_text_costs_no_node(chakra: Any, tmp_path: Path) -> None:
    trace = chakra()
    trace.node(COMP, "x", start_time_micros=1, duration_micros=1).name = b"caf\xe9 <script>"
    found = read([trace.write(tmp_path / "run.0.et")])
    assert rows(found, "name") == [("caf\N{REPLACEMENT CHARACTER} <script>",)]
    assert found.meta.quality.repaired == 1


@pytest.mark.parametrize("field", ["start_time_micros", "duration_micros"])
def test_a_time_that_cannot_be_is_left_out(chakra: Any, tmp_path: Path, field: str) -> None:
    trace = chakra()
    trace.node(COMP, "good", start_time_micros=1, duration_micros=1)
    trace.node(COMP, "bad", **{field: 2**64 - 1})
    found = read([trace.write(tmp_path / "run.0.et")])
    assert (found.spans.height, found.meta.quality.skipped) == (1, 1)


def test_durations_without_end_are_refused(chakra: Any, tmp_path: Path) -> None:
    trace = chakra()
    for _ in range(3):
        trace.node(COMP, "long", duration_micros=2**52)
    with pytest.raises(TraceFileError, match="by its durations"):
        read([trace.write(tmp_path / "run.0.et")])


def test_the_json_form_gives_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "run.1.json"
    nodes: list[Any] = [
        {"schema": "1.0"},
        {"Id": 1, "Name": "a", "NodeType": 4, "runtime": 3, "data_deps": [], "is_cpu_op": True},
        {"Id": 2, "Name": "b", "NodeType": 7, "runtime": 4, "data_deps": [1], "comm_size": 16},
        {"id": "3", "name": "c", "type": "COMP_NODE", "durationMicros": "5", "dataDeps": ["2"]},
        {"Id": -1, "NodeType": 4},
        "no node",
        {"Id": 9, "NodeType": [4], "attr": 5, "data_deps": 7, "runtime": None},
    ]
    path.write_text(json.dumps({"workload_graph": nodes}))
    found = read([path])
    assert rows(found, "rank", "kind", "name", "start_ns", "end_ns", "nbytes") == [
        (1, "host", "a", 0, 3_000, None),
        (1, "all_reduce", "b", 3_000, 7_000, 16),
        (1, "other", "c", 7_000, 12_000, None),
    ]
    assert found.meta.quality.skipped == 3


@pytest.mark.parametrize("graph", ["5", "{}", "null"])
def test_a_workload_graph_that_is_no_list_is_refused(tmp_path: Path, graph: str) -> None:
    path = tmp_path / "run.0.json"
    path.write_text(f'{{"workload_graph": {graph}}}')
    with pytest.raises(TraceFileError, match="no list workload_graph"):
        read([path])


def test_a_folder_of_ranks_reads_comm_group_json_and_does_not_complain_of_it(
    timed: Any, tmp_path: Path
) -> None:
    for rank in range(2):
        timed.write(tmp_path / f"run.{rank}.et")
    (tmp_path / "comm_group.json").write_text('{"3": [0, 1]}')
    found = read([tmp_path])
    assert found.ranks == (0, 1)
    assert (found.meta.world_size, found.meta.groups[0].ranks) == (2, (0, 1))
    assert not [w for w in found.meta.quality.warnings if "comm_group" in w]
    tied = found.spans.filter(pl.col("kind") == "all_gather")
    assert tied["collective"].to_list() == [0, 0]


def test_a_comm_group_json_by_itself_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "comm_group.json"
    path.write_text('{"3": [0, 1]}')
    with pytest.raises(TraceFileError, match="no trace in"):
        read([path])


@pytest.mark.parametrize("size", range(1, 140))
def test_a_file_is_told_whatever_the_length_of_its_first_message(chakra: Any, size: int) -> None:
    trace = chakra(version="x" * size)
    trace.node(COMP, "op", start_time_micros=1, duration_micros=1)
    assert sniff(trace.raw())


def test_text_is_no_chakra_file() -> None:
    assert not any(
        map(sniff, (b"", b"\0", b"hello", b"{}", b"[1]", b"\n\n\n", b"size count\n" * 9))
    )


def test_the_rank_that_is_given_is_believed(timed: Any, tmp_path: Path) -> None:
    path = timed.write(tmp_path / "run.2.et")
    assert read([path], choice=Choice(rank=5)).ranks == (5,)


@pytest.mark.parametrize("binary", [True, False])
def test_a_graph_of_more_nodes_than_memory_is_to_hold_is_refused(
    binary: bool, chakra: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_NODES", 2)
    path = tmp_path / "big.0.et"
    trace = chakra()
    for _ in range(3):
        trace.node(NodeType.COMP, duration_micros=1)
    trace.write(path)
    if not binary:
        node = {"id": 1, "name": "op", "type": 4}
        path.write_text(json.dumps({"workload_graph": [{**node, "id": i} for i in range(3)]}))
    with pytest.raises(TraceFileError, match=r"has 3 nodes or more, over 2: record fewer steps"):
        read([path])
