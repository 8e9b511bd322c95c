"""PyTorch execution traces of every schema: collectives and ops in order of call, against the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import TraceFileError
from zerosim.importers import execution, read
from zerosim.importers import recording as recordings
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.content import Content
from zerosim.importers.execution.calls import COMMS
from zerosim.importers.recording import Recording
from zerosim.trace import Group

TENSOR = [434, 435, 0, 1024, 4, "cuda:1"]
HALVES = "GenericList[Tensor(c10::Half)]"


def node(number: int, name: str, parent: int = 1, **changes: Any) -> dict[str, Any]:
    """A node of schema 1.1.0; `attrs` as a dict."""
    attrs = [{"name": k, "value": v} for k, v in changes.pop("attrs", {}).items()]
    given_ = {"values": changes.pop("values", []), "types": changes.pop("types", [])}
    gave = {"values": changes.pop("gave", []), "types": []}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": given_,
        "outputs": gave,
        "attrs": attrs,
        **changes,
    }


def note(number: int, name: str = "allreduce", parent: int = 1, **changes: Any) -> dict[str, Any]:
    """A call of rank 1 in group `0` of 2, of 1024 floats."""
    attrs = {
        "collective_name": name,
        "dtype": "Float",
        "in_msg_nelems": 1024,
        "out_msg_nelems": 2048,
        "pg_name": "0",
        "pg_size": 2,
        **changes.pop("attrs", {}),
    }
    values = [[TENSOR], number, ["0", "default_pg"], 1, name, [], [], 0, 1, 2]
    return node(number, COMMS, parent, values=values, attrs=attrs)


def flat_note(number: int, *values: Any) -> dict[str, Any]:
    """A call as schema 1.0.1 wrote it, of group 9382 of 8, by rank 3 in it."""
    return {
        "id": number,
        "name": COMMS,
        "parent": 1,
        "inputs": list(values),
        "input_types": [HALVES],
        "outputs": [[TENSOR]],
    }


MADE = node(
    *(3, "## process_group:init ##"),
    values=[json.dumps([{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 2}])],
)


def recording(*nodes: Any, choice: Choice = ALL, **header: Any) -> Recording:
    document = {"schema": "1.1.0-chakra.0.0.4", "start_ts": 5, "nodes": list(nodes), **header}
    return execution.parse(Content(Path("et_0.json"), json.dumps(document).encode()), choice)[0]


def rows(found: Recording, *columns: str) -> list[tuple[Any, ...]]:
    return list(found.spans.select(columns).iter_rows())


def test_a_noted_call_has_kind_size_group_and_number() -> None:
    found = recording(MADE, note(7), note(8, "_allgather_base"), note(9, "wait"))
    columns = ("kind", "name", "group", "elements", "nbytes", "dtype", "sequence")
    assert rows(found, *columns) == [
        ("all_reduce", "allreduce", "0", 1024, 4096, "float32", 7),
        ("all_gather", "_allgather_base", "0", 2048, 8192, "float32", 8),
    ]
    assert (found.rank, found.world_size) == (1, 2)
    assert found.groups == (Group("0", 2, (0, 1)),)


def test_nothing_has_a_time() -> None:
    found = recording(note(7))
    assert rows(found, "issued_ns", "start_ns", "end_ns", "flags") == [(None, 5000, 5000, 1)]
    assert found.quality.unknown[0].startswith("when anything ran")
    assert not found.absolute


def test_rows_stand_in_order_of_call_whatever_the_order_in_the_file() -> None:
    found = recording(node(9, "aten::mm"), note(7), node(8, "aten::add"))
    assert rows(found, "name") == [("allreduce",), ("aten::add",), ("aten::mm",)]


def test_of_nested_ops_the_outermost_is_a_row() -> None:
    found = recording(
        *(node(5, "aten::linear"), node(6, "aten::addmm", 5), node(7, "aten::t", 6)),
        *(node(8, "autograd"), node(9, "aten::mm", 8)),
    )
    assert rows(found, "name") == [("aten::linear",), ("aten::mm",)]


def test_a_call_is_counted_once_by_its_note_or_by_itself() -> None:
    base = [[10, 11, 0, 64, 4, "cpu"], [20, 11, 0, 256, 4, "cpu"], "<Object>"]
    types = ["Tensor(float)", "Tensor(float)", "Object"]
    found = recording(
        MADE,
        *(node(5, "c10d::allreduce_"), note(6, parent=5), node(7, "nccl:all_reduce", 6)),
        *(node(8, "c10d::_reduce_scatter_base_", values=base, types=types),),
        node(9, "gloo:all_reduce", 8),
    )
    assert rows(found, "kind", "elements", "group", "dtype") == [
        ("all_reduce", 1024, "0", "float32"),
        ("reduce_scatter", 256, "0", "float32"),
    ]


def test_a_call_within_an_aten_op_is_not_hidden_by_it() -> None:
    found = recording(node(5, "aten::redistribute"), node(6, "c10d::barrier", 5))
    assert rows(found, "kind") == [("barrier",)]


def test_old_schemas_are_read_by_the_order_of_their_arguments() -> None:
    found = recording(
        flat_note(5, [TENSOR], 337, 9382, 3, "allreduce", [], [], 8),
        flat_note(6, 337, 0, 0, "wait", [], [], 1),
        schema="1.0.1",
    )
    columns = ("kind", "group", "elements", "nbytes", "dtype", "sequence")
    assert rows(found, *columns) == [("all_reduce", "9382", 1024, 2048, "float16", 337)]
    assert (found.rank, found.groups) == (3, (Group("9382", 8),))


def test_units_and_steps_are_those_of_the_marks_around() -> None:
    found = recording(
        *(node(5, "ProfilerStep#4"), node(6, "FSDP::all_gather (blocks.0)", 5)),
        *(note(7, "_allgather_base", 6), node(8, "aten::mm", 5), node(9, "aten::mm")),
    )
    assert rows(found, "step", "unit") == [(4, "blocks.0"), (4, None), (None, None)]


def test_the_root_of_a_broadcast_is_no_rank() -> None:
    assert recording(note(7, "broadcast")).rank is None


def test_whoever_gives_the_rank_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "et_0.json"
    path.write_text(json.dumps({"schema": "1.1.0", "nodes": [note(7)]}))
    assert read([path]).ranks == (1,)
    assert read([path], choice=Choice(rank=9)).ranks == (9,)


def test_numbers_that_two_calls_share_tie_neither() -> None:
    two = note(8)
    two["inputs"]["values"][1] = 7
    assert rows(recording(note(7), two), "sequence") == [(None,), (None,)]


@pytest.mark.parametrize("size", [None, -1, "1024", True, 2**63, 1.5])
def test_a_size_that_is_none_is_unknown_and_never_0(size: Any) -> None:
    found = recording(note(7, attrs={"in_msg_nelems": size}))
    assert rows(found, "elements", "nbytes") == [(None, None)]
    assert found.quality.unsized == 1


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["x"],
        [[]],
        [[[1, 2, 3]]],
        [[[1, 2, 0, -4, 4, "cpu"]]],
        [[[[[[[1]]]]]]],
        [{"a": 1}],
        [None],
    ],
)
def test_tensors_that_are_none_have_no_size(values: Any) -> None:
    found = recording(node(5, "c10d::allreduce_", values=values))
    assert rows(found, "elements") == [(None,)]


def test_nodes_without_number_or_name_are_counted_out() -> None:
    found = recording({}, None, 5, {"id": "x", "name": "y"}, {"id": 1}, note(7))
    assert (found.quality.events, found.quality.skipped, found.spans.height) == (6, 5, 1)
    assert found.quality.places[0].what == "node 0 has no number or name"


def test_nodes_that_share_a_number_or_call_each_other_do_no_harm() -> None:
    found = recording(node(5, "aten::mm", 6), node(6, "aten::mm", 5), note(7, parent=7), note(7))
    assert rows(found, "name") == [("aten::mm",), ("allreduce",), ("allreduce",)]
    assert "'et_0.json' has 1 node with the number of another" in found.quality.warnings


@pytest.mark.parametrize(
    "written",
    ["", "[", "5", "[5]", '[{"pg_name": 1}]', '[{"pg_name": "0", "group_size": 99999999}]'],
)
def test_groups_that_cannot_be_read_are_left_out(written: str) -> None:
    assert recording(node(3, "## process_group:init ##", values=[written])).groups == ()


def test_what_has_no_nodes_is_refused() -> None:
    with pytest.raises(TraceFileError, match="has no list of nodes"):
        recording(nodes=5)


def test_an_empty_trace_loads_and_says_so() -> None:
    found = recording()
    assert found.spans.height == 0
    assert found.quality.warnings == ("'et_0.json' has no collectives and no ops",)


@given(place=st.integers(0, 4000), byte=st.integers(0, 255))
def test_a_changed_byte_never_loses_a_node_silently(place: int, byte: int) -> None:
    document = {"schema": "1.1.0", "nodes": [MADE, note(7), node(8, "aten::mm", 7)]}
    raw = bytearray(json.dumps(document).encode())
    raw[place % len(raw)] = byte
    if not execution.sniff(bytes(raw)):
        return
    try:
        (found,) = execution.parse(Content(Path("et_0.json"), bytes(raw)), ALL)
    except TraceFileError as refused:
        assert "\n" not in str(refused)  # noqa: PT017 - many changes are refused
    else:
        assert found.quality.events == 3


def test_a_trace_of_more_nodes_than_memory_is_to_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recordings, "MAX_NODES", 3)
    assert recording(note(2), note(3), MADE).spans.height == 2
    with pytest.raises(
        TraceFileError, match=r"'et_0\.json' has 4 nodes or more, over 3: record fewer steps"
    ):
        recording(note(2), note(3), note(4), MADE)
